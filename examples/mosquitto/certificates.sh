#!/bin/sh
# Makes a CA for brokers, and a certificate of it for one broker. docs/brokers.md says where each file goes.
# Usage: certificates.sh DIRECTORY HOST...        HOST: a name or number by which the broker is reached
set -eu
[ $# -ge 2 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
directory=$1
shift
names=
for host in "$@"; do
  case $host in
    *[!0-9.]*) case $host in *:*) kind=IP ;; *) kind=DNS ;; esac ;;
    *) kind=IP ;;
  esac
  names=$names${names:+,}$kind:$host
done
umask 077
mkdir -p "$directory"
cd "$directory"
curve='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
if [ ! -e broker-ca.key ]; then
  # shellcheck disable=SC2086
  openssl req -x509 -new $curve -keyout broker-ca.key -out broker-ca.crt -days 3650 -subj "/CN=brokers of Muster" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null
fi
# shellcheck disable=SC2086
openssl req -new $curve -keyout broker.key -out broker.csr -subj "/CN=$1" 2>/dev/null
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\nkeyUsage=digitalSignature\n' "$names" >broker.ext
openssl x509 -req -in broker.csr -CA broker-ca.crt -CAkey broker-ca.key -CAcreateserial -days 825 \
  -extfile broker.ext -out broker.pem 2>/dev/null
# The broker sends the CA's certificate along: controller and agents know the CA by its fingerprint.
cat broker.pem broker-ca.crt >broker.crt
rm -f broker.csr broker.ext broker.pem broker-ca.srl
