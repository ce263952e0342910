#!/usr/bin/env bash
# Flow rules from the operator's file to a real switch: 100,000 at once, the same again, one at a time, one repaired.
# Beside them raw_s: the same number of rules as one bundle that was made before (cargo bench -p muster-host). Needs root.
# Usage: tests/bench/flows.sh RELEASE-DIRECTORY AGENT DIRECTORY
set -euo pipefail
release=$1 agent=$2 dir=$3
# shellcheck source=tests/bench/common.bash
. "$(dirname -- "$0")/common.bash"
rules=100000 singles=101

now() { local at=$EPOCHREALTIME; echo "${at/./}000"; } # ns
seconds() { calculate "($2 - $1) / 1e9" 4; }
memory() { echo "$(($(field "/proc/$agent_pid/status" "$1") * 1024))"; }
ofctl() { ovs-ofctl -O OpenFlow14 "$@"; }
flows() { # how many, and the port of every rule
  awk -v count="$1" -v port="$2" 'BEGIN {
    printf "{\"rules\":["
    for (n = 0; n < count; n++)
      printf "%s{\"device\":\"web-1/br0\",\"priority\":100,\"selector\":{\"eth_type\":2048,\"ipv4_dst\":\"10.%d.%d.%d\"},\"treatment\":[{\"output\":\"%s\"}]}",
        n ? ",\n" : "", n / 65536, int(n / 256) % 256, n % 256, port
    print "]}"
  }'
}
spent() { calculate "$2 - $1" 2; }
apply() { muster flow apply -f "$1" --wait &>"$dir/muster.log" || fail "$1 cannot be applied"; }
# timed WHAT FILE: applies it and says how long that took from start to all ADDED, what processor time each side had, and
# how much memory the agent had at most.
timed() {
  local began took before
  echo 5 >"/proc/$agent_pid/clear_refs"
  before=("$(cpu "$controller_pid")" "$(cpu "$agent_pid")" "$(cpu "$switch_pid")")
  began=$(now)
  apply "$2"
  took=$(seconds "$began" "$(now)")
  printf '{"bench":"flows","what":"%s","rules":%d,"seconds":%s,"raw_s":%s,"by_raw":%s,"controller_cpu_s":%s,"agent_cpu_s":%s,"switch_cpu_s":%s,"agent_max_bytes":%d,"agent_bytes":%d}\n' \
    "$1" "$rules" "$took" "$raw" "$(calculate "$took / $raw" 2)" "$(spent "${before[0]}" "$(cpu "$controller_pid")")" \
    "$(spent "${before[1]}" "$(cpu "$agent_pid")")" "$(spent "${before[2]}" "$(cpu "$switch_pid")")" "$(memory VmHWM)" "$(memory VmRSS)"
}
count() { ofctl dump-aggregate br0 | sed -n 's/.*flow_count=\([0-9]*\).*/\1/p'; }
held() { [ "$(count)" -ge "$1" ]; }

cargo bench -q -p muster-host --bench openflow >"$dir/raw"
cat "$dir/raw"
raw=$(sed -n 's/.*"raw_s":\([0-9.e-]*\).*/\1/p' "$dir/raw" | head -n 1)

make_namespace flows
switch_starts
vsctl add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure \
  -- add-port br0 p1 -- set interface p1 type=internal -- add-port br0 p2 -- set interface p2 type=internal
controller 127.0.0.1:8883
controller_answers
agent_joins web-1 MUSTER_HOST__OVS_DATAPATH_TYPE=netdev

flows "$rules" p1 >"$dir/flows-1.json"
flows "$rules" p2 >"$dir/flows-2.json"
flows 1 p1 >"$dir/one-1.json"
flows 1 p2 >"$dir/one-2.json"
timed install "$dir/flows-1.json"
timed again "$dir/flows-1.json"
timed change "$dir/flows-2.json"

# each WHAT COMMAND…: how long one takes; the number of the run is its last argument
each() {
  local what=$1 n began; shift
  for n in $(seq "$singles"); do
    began=${EPOCHREALTIME/./}
    "$@" "$n"
    echo $((${EPOCHREALTIME/./} - began))
  done >"$dir/times"
  echo "{\"bench\":\"flows\",\"what\":\"$what\",$(times <"$dir/times")}"
}
one_rule() { apply "$dir/one-$(($1 % 2 + 1)).json"; }
no_rule() { muster flow show web-1/br0 4d55000000000000 &>/dev/null || :; }
each 'one rule, command and all' one_rule
each 'the command alone' no_rule

all=$(count)
ofctl --strict del-flows br0 priority=100,ip,nw_dst=10.0.5.5
began=$(now)
pause=0.01
eventually 'the rule is back' held "$all"
echo "{\"bench\":\"flows\",\"what\":\"one of $rules deleted by hand is back\",\"seconds\":$(seconds "$began" "$(now)")}"
sleep 10
echo "{\"bench\":\"flows\",\"what\":\"at rest\",\"rules\":$rules,\"agent_bytes\":$(memory VmRSS)}"
