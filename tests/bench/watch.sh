#!/usr/bin/env bash
# From a change by hand to the controller's event, and what watching costs: in a network namespace with nothing else. Needs root.
# Usage: tests/bench/watch.sh RELEASE-DIRECTORY AGENT DIRECTORY
set -euo pipefail
release=$1 agent=$2 dir=$3 name=muster-bench-$$
pids=()

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

muster() { "$release/muster" --url "unix://$dir/watched.sock" "$@"; }
here() { ip -n "$name" "$@"; }
# eventually WHAT COMMAND…
eventually() {
  local what=$1; shift
  for _ in $(seq 6000); do
    ! "$@" >/dev/null 2>&1 || return 0
  done
  echo "bench: waited in vain until $what" >&2
  tail -n 20 "$dir"/watched*.log >&2
  exit 1
}
# shellcheck disable=SC2317
online() { muster node list | grep -q 'bench-2 *online'; }
told() { muster stack events net -o json | grep -c "$1" || :; }
# shellcheck disable=SC2317
told_more() { [ "$(told "$1")" -gt "$2" ]; }
switches() { awk '$1 == "voluntary_ctxt_switches:" { sum += $2 } END { print sum }' /proc/"$1"/task/*/status; }

here link set lo up
here link add eth1 type veth peer name peer1
here link set peer1 up
here link set eth1 up
: >"$dir/empty.toml"
ip netns exec "$name" "$release/muster-controller" --config "$dir/empty.toml" --data-dir "$dir/watched" \
  --listen 127.0.0.1:8883 --api-socket "$dir/watched.sock" >"$dir/watched.log" 2>&1 &
pids+=($!)
eventually 'the controller answers' muster node list
ip netns exec "$name" "$agent" --config "$dir/empty.toml" --state-dir "$dir/watched-state" \
  join "$(muster node token --name bench-2)" --name bench-2 >"$dir/watched-agent.log" 2>&1 &
agent_pid=$!
pids=("$agent_pid" "${pids[@]}")
eventually 'the agent is online' online
cat >"$dir/net.yaml" <<END
heat_template_version: 2018-08-31
resources:
  net:
    type: Muster::NetworkConfig
    properties:
      node: bench-2
      network_config: [{type: interface, name: eth1, addresses: [{ip_netmask: 192.0.2.1/24}]}]
END
muster stack create net -t "$dir/net.yaml" --wait &>"$dir/muster.log"

# measure WHAT EVENT EVENT-OF-THE-WAY-BACK 'CHANGE' 'WAY BACK'
measure() {
  local what=$1 word=$2 undone=$3 count began change back
  read -ra change <<<"$4"
  read -ra back <<<"$5"
  # Words of one resource are ten seconds apart.
  for _ in 1 2 3 4 5; do
    count=$(told "$word")
    began=${EPOCHREALTIME/./}
    here "${change[@]}"
    eventually "an event says '$word'" told_more "$word" "$count"
    echo $((${EPOCHREALTIME/./} - began))
    sleep 10
    count=$(told "$undone")
    here "${back[@]}"
    eventually "an event says '$undone'" told_more "$undone" "$count"
    sleep 10
  done | sort -n | awk -v what="$what" '{ t[NR] = $1 / 1000 } END {
    printf "{\"bench\":\"watch\",\"change\":\"%s\",\"runs\":%d,\"min_ms\":%.0f,\"median_ms\":%.0f,\"max_ms\":%.0f}\n",
      what, NR, t[1], t[int((NR + 1) / 2)], t[NR] }'
}
measure address 'drifted: ' 'in sync again' 'address del 192.0.2.1/24 dev eth1' 'address add 192.0.2.1/24 dev eth1'
measure carrier 'carrier lost' 'carrier found' 'link set peer1 down' 'link set peer1 up'

before=$(switches "$agent_pid")
sleep 60
after=$(switches "$agent_pid")
for n in $(seq 0 9999); do
  echo "route add 10.$((n / 256)).$((n % 256)).0/24 dev eth1"
done >"$dir/routes"
here -batch "$dir/routes"
sleep 5
printf '{"bench":"watch","idle_s":60,"wakeups_per_10s":%s,"wakeups_for_10000_routes":%d,"rss_bytes":%d}\n' \
  "$(awk "BEGIN { print ($after - $before) / 6 }")" "$(($(switches "$agent_pid") - after))" \
  "$(awk '$1 == "VmRSS:" { print $2 * 1024 }' "/proc/$agent_pid/status")"
