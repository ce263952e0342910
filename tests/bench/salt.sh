#!/usr/bin/env bash
# Salt as users know it: a master and a minion from PyPI on loopback, a state with one file that changes and is applied again
# and again, and the memory of all their processes at rest. Needs root, and Python with venv; where PyPI cannot be reached it
# prints a line that says so.
# Usage: tests/bench/salt.sh RELEASE-DIRECTORY DIRECTORY
set -euo pipefail
release=$1 dir=$2 runs=21
# shellcheck source=tests/bench/common.bash
. "$(dirname -- "$0")/common.bash"
patience=120

if ! timeout 600 python3 -m venv "$dir/venv" &>"$dir/pip.log" ||
  ! timeout 900 "$dir/venv/bin/pip" install --disable-pip-version-check salt &>>"$dir/pip.log"; then
  echo '{"bench":"salt","left_out":"Salt cannot be installed from PyPI"}'
  tail -n 5 "$dir/pip.log" >&2
  exit 0
fi
PATH=$dir/venv/bin:$PATH

# Apart from its own folders and addresses everything is as Salt ships it; keys are accepted without an operator.
mkdir "$dir/states" "$dir/etc"
cat >"$dir/etc/master" <<END
interface: 127.0.0.1
user: root
root_dir: $dir
pki_dir: $dir/etc/pki/master
auto_accept: True
file_roots: {base: [$dir/states]}
END
cat >"$dir/etc/minion" <<END
master: 127.0.0.1
id: bench-1
user: root
root_dir: $dir
pki_dir: $dir/etc/pki/minion
END
cat >"$dir/states/one.sls" <<END
$dir/file:
  file.managed:
    - source: salt://word
END

salt() { "${inside[@]}" timeout 60 "$dir/venv/bin/salt" -c "$dir/etc" --out=txt bench-1 "$@" &>"$dir/salt.log"; }
# A master whose minion is not there yet may say so without an error.
answers() { salt test.ping && grep -q '^bench-1: True' "$dir/salt.log"; }
# The file's new content on the master, until the minion has it.
update() {
  echo "$1" >"$dir/states/word"
  salt state.apply one || fail "Salt cannot apply $1"
}

make_namespace salt
background master "$dir/venv/bin/salt-master" -c "$dir/etc"
master_pid=$pid
background minion "$dir/venv/bin/salt-minion" -c "$dir/etc"
minion_pid=$pid
eventually 'the minion answers' answers
update first
for run in $(seq "$runs"); do
  began=${EPOCHREALTIME/./}
  update "$run"
  ended=${EPOCHREALTIME/./}
  [ "$(<"$dir/file")" = "$run" ] || fail "the file does not say $run"
  echo $((ended - began))
done >"$dir/times"
sleep 10
read -r processes rss pss <<<"$(memory_of "$master_pid" "$minion_pid")"
printf '{"bench":"salt","version":"%s",%s,"processes":%d,"rss_bytes":%d,"pss_bytes":%d}\n' \
  "$("$dir/venv/bin/salt" --version | awk '{ print $2 }')" "$(times <"$dir/times")" "$processes" "$rss" "$pss"
