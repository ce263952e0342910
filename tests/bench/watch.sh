#!/usr/bin/env bash
# From a change by hand to the controller's event, and what watching costs: in a network namespace with nothing else. Needs root.
# Usage: tests/bench/watch.sh RELEASE-DIRECTORY AGENT DIRECTORY
set -euo pipefail
release=$1 agent=$2 dir=$3
# shellcheck source=tests/bench/common.bash
. "$(dirname -- "$0")/common.bash"
# What is measured ends with a look.
pause=0

here() { ip -n "$namespace" "$@"; }
told() { muster stack events net -o json | grep -c "$1" || :; }
told_more() { [ "$(told "$1")" -gt "$2" ]; }

make_namespace watch
here link add eth1 type veth peer name peer1
here link set peer1 up
here link set eth1 up
controller 127.0.0.1:8883
controller_answers
agent_joins bench-2
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
  "$(calculate "($after - $before) / 6")" "$(($(switches "$agent_pid") - after))" "$(($(field "/proc/$agent_pid/status" VmRSS) * 1024))"
