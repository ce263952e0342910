#!/bin/bash
# Stands in for the script of this name in TripleO's templates. A template puts the network document where
# $network_config stands; the deployment's inputs name the bridge and its interface.
set -eu

config=/etc/os-net-config/config.json
mkdir -p "$(dirname "$config")"
cat > "$config.new" <<'DOCUMENT'
$network_config
DOCUMENT
sed -i "s/bridge_name/${bridge_name:-}/; s/interface_name/${interface_name:-}/" "$config.new"
mv "$config.new" "$config"

set +e
os-net-config -c "$config" -v --detailed-exit-codes
code=$?
set -e
# 2: the network was changed.
if [ "$code" != 0 ] && [ "$code" != 2 ]; then
    echo "os-net-config ended with $code" >&2
    exit 1
fi

metadata=$(os-apply-config --key os-collect-config.ec2.metadata_url --key-default '' --type raw)
address=${metadata#*://}
address=${address%%[:/]*}
if [ -n "$address" ] && ! ping -c 1 -W 10 "$address" > /dev/null; then
    echo "the metadata address $address does not answer" >&2
    exit 1
fi
