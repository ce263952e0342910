# shellcheck shell=bash
# What systemd-server and vm-server share: where they keep things, and how they know and end what they started.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

say() { echo "${0##*/}: $*" >&2; }
die() { say "$@"; exit 1; }

# open_bed KIND: $bed is one test's folder, $servers that of its servers of this kind, $cache what all tests use.
open_bed() {
  [ "$EUID" = 0 ] || die 'must be root'
  bed=$(realpath -m -- "${MUSTER_BED:?names the folder for the state of servers}")
  # shellcheck disable=SC2034 # both scripts read it
  cache=$(realpath -m -- "${MUSTER_BED_CACHE:?names the folder for root file systems and images}")
  servers=$bed/$1
  # Of six digits, so that servers of two tests never meet.
  # shellcheck disable=SC2034
  tag=$(sha256sum <<<"$bed" | head -c 6)
  mkdir -p -- "$servers" "$cache"
}

# One change of a bed at a time. A child that stays must be started with 8>&-, or it would keep the lock.
lock() { exec 8>"$bed/lock"; flock 8; }
unlock() { exec 8>&-; }

# The cache is built by one, while the others wait.
lock_cache() { exec 7>"$cache/lock"; flock 7; }
unlock_cache() { exec 7>&-; }

want_commands() {
  local command
  for command in "$@"; do
    command -v "$command" >/dev/null || die "no $command here: '.ci/packages test' installs what the tests need"
  done
}
want_name() {
  [[ ${1:-} =~ ^[a-z0-9][a-z0-9-]{0,30}$ ]] || die "'${1:-}' is no server's name: a-z, 0-9 and '-', at most 31"
}

# A number may be given to another process later; number and start time together are not.
started_at() {
  local stat
  { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
  # shellcheck disable=SC2086 # what follows "PID (NAME)" is meant as words
  set -- ${stat##*) }
  # A process whose first thread has ended holds its files as long as another thread lives.
  { [ "$1" != Z ] || [ "${18}" -gt 1 ]; } && echo "${20}"
}
# remember FILE PID
remember() { local at; at=$(started_at "$2") && echo "$2 $at" >>"$1"; }
# living FILE: those remembered that still live; fails if none does.
living() {
  local pid at none=1
  [ -f "$1" ] || return 1
  while read -r pid at; do
    # Never this script itself: `watch_owner` has become it.
    if [ "$pid" != $$ ] && [ "$(started_at "$pid")" = "$at" ]; then echo "$pid"; none=0; fi
  done <"$1"
  return $none
}
# watch_owner NAME: takes the server down when the test's process, $MUSTER_BED_OWNER, ends without having done so.
watch_owner() {
  [ -n "${MUSTER_BED_OWNER:-}" ] || return 0
  # shellcheck disable=SC2016 # for the shell that waits
  setsid bash -c 'tail --pid="$1" -f /dev/null; exec "$2" down "$3"' - "$MUSTER_BED_OWNER" "$(readlink -f -- "$0")" "$1" \
    </dev/null >/dev/null 2>&1 8>&- &
  remember "$servers/$1/watch" $!
}
# end FILE [now]: asks those remembered to end, and kills what does not within two seconds.
end() {
  local i
  if [ "${2:-}" != now ]; then
    # shellcheck disable=SC2046
    kill $(living "$1") 2>/dev/null || :
    for ((i = 0; i < 100; i++)); do living "$1" >/dev/null || break; sleep 0.02; done
  fi
  # shellcheck disable=SC2046
  kill -KILL $(living "$1") 2>/dev/null || :
  # A virtual machine gives much memory back, which takes its time on a busy machine.
  for ((i = 0; i < 1500; i++)); do living "$1" >/dev/null || break; sleep 0.02; done
  rm -f -- "$1"
}
