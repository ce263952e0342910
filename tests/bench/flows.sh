#!/usr/bin/env bash
# Flow rules from the operator's file to a real switch: 100,000 at once, the same again, one at a time, one repaired.
# Beside them raw_s: the same number of rules as one bundle that was made before (cargo bench -p muster-host). Needs root.
# Usage: tests/bench/flows.sh RELEASE-DIRECTORY AGENT DIRECTORY
set -euo pipefail
release=$1 agent=$2 dir=$3 name=muster-flows-$$
rules=100000 singles=101
pids=() agent_pid=''

finish() {
  local pid
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null || :
    wait "$pid" 2>/dev/null || :
  done
  ip netns del "$name"
}
ip netns add "$name"
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

muster() { "$release/muster" --url "unix://$dir/flows.sock" "$@"; }
# background LOG COMMAND…: in the namespace; its process id in $pid.
background() {
  local log=$1; shift
  OVS_RUNDIR=$dir/ovs OVS_DBDIR=$dir/ovs OVS_LOGDIR=$dir/ovs OVS_SYSCONFDIR=$dir/ovs \
    ip netns exec "$name" "$@" >"$dir/flows-$log.log" 2>&1 &
  pid=$!
  pids=("$pid" "${pids[@]}")
}
# eventually WHAT COMMAND…
eventually() {
  local what=$1; shift
  for _ in $(seq 3000); do
    ! "$@" >/dev/null 2>&1 || return 0
    sleep 0.01
  done
  echo "bench: waited in vain until $what" >&2
  tail -n 20 "$dir"/flows*.log >&2
  exit 1
}
online() { muster node list | grep -q 'web-1 *online'; }
now() { local at=$EPOCHREALTIME; echo "${at/./}000"; } # ns
seconds() { awk "BEGIN {printf \"%.4f\", ($2 - $1) / 1e9}"; }
memory() { awk -v key="$1:" '$1 == key {printf "%d", $2 * 1024}' "/proc/$agent_pid/status"; }
ofctl() { OVS_RUNDIR=$dir/ovs ovs-ofctl -O OpenFlow14 "$@"; }
flows() { # how many, and the port of every rule
  awk -v count="$1" -v port="$2" 'BEGIN {
    printf "{\"rules\":["
    for (n = 0; n < count; n++)
      printf "%s{\"device\":\"web-1/br0\",\"priority\":100,\"selector\":{\"eth_type\":2048,\"ipv4_dst\":\"10.%d.%d.%d\"},\"treatment\":[{\"output\":\"%s\"}]}",
        n ? ",\n" : "", n / 65536, int(n / 256) % 256, n % 256, port
    print "]}"
  }'
}
# cpu PID: seconds of processor time that it has had
cpu() { awk -v tick="$(getconf CLK_TCK)" '{sub(/.*\) /, ""); printf "%.2f", ($12 + $13) / tick}' "/proc/$1/stat"; }
spent() { awk "BEGIN {printf \"%.2f\", $2 - $1}"; }
apply() { muster flow apply -f "$1" --wait &>"$dir/flows-muster.log" || { cat "$dir/flows-muster.log" >&2; return 1; }; }
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
    "$1" "$rules" "$took" "$raw" "$(awk "BEGIN {printf \"%.2f\", $took / $raw}")" "$(spent "${before[0]}" "$(cpu "$controller_pid")")" \
    "$(spent "${before[1]}" "$(cpu "$agent_pid")")" "$(spent "${before[2]}" "$(cpu "$switch_pid")")" "$(memory VmHWM)" "$(memory VmRSS)"
}
count() { ofctl dump-aggregate br0 | sed -n 's/.*flow_count=\([0-9]*\).*/\1/p'; }
held() { [ "$(count)" -ge "$1" ]; }
fsync_s() {
  local line
  line=$("$release/muster-sim" scale --shape wide --resources 10 --dir "$dir")
  [[ $line =~ \"fsync_s\":([0-9.e-]+) ]] && echo "${BASH_REMATCH[1]}"
}

raw=$(cargo bench -q -p muster-host --bench openflow | tee >(cat >&2) | sed -n 's/.*"raw_s":\([0-9.e-]*\).*/\1/p' | head -n 1)

mkdir "$dir/ovs"
ovsdb-tool create "$dir/ovs/conf.db" /usr/share/openvswitch/vswitch.ovsschema
ip -n "$name" link set lo up
background ovsdb ovsdb-server "$dir/ovs/conf.db" "--remote=punix:$dir/ovs/db.sock"
vsctl() { ovs-vsctl --db="unix:$dir/ovs/db.sock" --timeout=30 "$@"; }
vsctl --retry --no-wait init
background vswitchd ovs-vswitchd "unix:$dir/ovs/db.sock" --disable-system
switch_pid=$pid
vsctl add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure \
  -- add-port br0 p1 -- set interface p1 type=internal -- add-port br0 p2 -- set interface p2 type=internal
: >"$dir/empty.toml"
background controller "$release/muster-controller" --config "$dir/empty.toml" --data-dir "$dir/flows" \
  --listen 127.0.0.1:8883 --api-socket "$dir/flows.sock"
controller_pid=$pid
eventually 'the controller answers' muster node list
background agent env MUSTER_HOST__OVS_DATAPATH_TYPE=netdev "$agent" --config "$dir/empty.toml" --state-dir "$dir/flows-state" join "$(muster node token --name web-1)" --name web-1
agent_pid=$pid
eventually 'the agent is online' online

flows "$rules" p1 >"$dir/flows-1.json"
flows "$rules" p2 >"$dir/flows-2.json"
flows 1 p1 >"$dir/flows-one-1.json"
flows 1 p2 >"$dir/flows-one-2.json"
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
  done | sort -n >"$dir/flows-times"
  awk -v what="$what" -v fsync="$(fsync_s)" '{ t[NR] = $1 / 1e3 } END {
    printf "{\"bench\":\"flows\",\"what\":\"%s\",\"runs\":%d,\"min_ms\":%.2f,\"median_ms\":%.2f,\"p95_ms\":%.2f,\"max_ms\":%.2f,\"fsync_s\":%s}\n",
      what, NR, t[1], t[int((NR + 1) / 2)], t[int(NR * 0.95)], t[NR], fsync }' "$dir/flows-times"
}
one_rule() { apply "$dir/flows-one-$(($1 % 2 + 1)).json"; }
no_rule() { muster flow show web-1/br0 4d55000000000000 &>/dev/null || :; }
each 'one rule, command and all' one_rule
each 'the command alone' no_rule

all=$(count)
ofctl --strict del-flows br0 priority=100,ip,nw_dst=10.0.5.5
began=$(now)
eventually 'the rule is back' held "$all"
echo "{\"bench\":\"flows\",\"what\":\"one of $rules deleted by hand is back\",\"seconds\":$(seconds "$began" "$(now)")}"
sleep 10
echo "{\"bench\":\"flows\",\"what\":\"at rest\",\"rules\":$rules,\"agent_bytes\":$(memory VmRSS)}"
