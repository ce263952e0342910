#!/usr/bin/env bash
# The most memory the agent has ever had (VmHWM) with a large network: idle, with many VLAN ports on an Open vSwitch,
# and with many routes that somebody else has added. Each agent is in a network namespace of its own. Needs root.
# Usage: tests/bench/memory.sh RELEASE-DIRECTORY AGENT DIRECTORY
set -euo pipefail
release=$1 agent=$2 dir=$3
# shellcheck source=tests/bench/common.bash
. "$(dirname -- "$0")/common.bash"
ports=200 routes=10000

here() { ip -n "$namespace" "$@"; }
bytes() { echo "$(($(field "/proc/$agent_pid/status" "$1") * 1024))"; }
# said WHEN: what the agent has had at most since the last time, what it has now, and what of that are its own program and
# libraries.
said() {
  printf '{"bench":"memory","after":"%s","rss_max_bytes":%d,"rss_bytes":%d,"of_files_bytes":%d}\n' \
    "$1" "$(bytes VmHWM)" "$(bytes VmRSS)" "$(bytes RssFile)"
  echo 5 >"/proc/$agent_pid/clear_refs"
}

make_namespace memory
for link in eth1 eth2; do
  here link add "$link" type veth peer name "peer-$link"
  here link set "peer-$link" up
  here link set "$link" up
done
switch_starts
controller 127.0.0.1:8883
controller_answers
agent_joins bench-3 MUSTER_HOST__OVS_DATAPATH_TYPE=netdev
sleep 10
said idle

{
  cat <<-END
	heat_template_version: 2018-08-31
	resources:
	  net:
	    type: Muster::NetworkConfig
	    properties:
	      node: bench-3
	      network_config:
	        - type: ovs_bridge
	          name: br-ex
	          members:
	            - {type: interface, name: eth1, primary: true}
	END
  for n in $(seq 0 $((ports - 1))); do
    net=10.100.$n
    echo "            - {type: vlan, vlan_id: $((n + 2)), addresses: [{ip_netmask: $net.1/24}]," \
      "routes: [{ip_netmask: 10.10.$n.0/24, next_hop: $net.254}, {ip_netmask: 10.11.$n.0/24, next_hop: $net.254}]}"
  done
} >"$dir/ports.yaml"
muster stack create ports -t "$dir/ports.yaml" --wait &>"$dir/muster.log"
said "$ports VLAN ports and $((ports * 2)) routes applied"
muster stack update ports -t "$dir/ports.yaml" --wait &>"$dir/muster.log"
muster stack check ports --wait &>"$dir/muster.log"
said 'nothing to do'
muster stack delete ports --wait &>"$dir/muster.log"
said 'deleted'

# one WHERE ADDRESS
one() {
  cat <<-END
	heat_template_version: 2018-08-31
	resources:
	  net:
	    type: Muster::NetworkConfig
	    properties:
	      node: bench-3
	      network_config: [{type: interface, name: $1, addresses: [{ip_netmask: $2}]}]
	END
}
here address add 192.0.2.10/24 dev eth2
for n in $(seq 0 $((routes - 1))); do
  echo "route add 10.$((n / 256)).$((n % 256)).0/24 via 192.0.2.1 src 192.0.2.10"
done >"$dir/routes"
here -batch "$dir/routes"
sleep 2
said "$routes routes that somebody else adds"
# Routes of a link that is left alone; then of the link whose address changes, and with them.
for link in eth1 eth2; do
  one "$link" 198.51.100.1/24 >"$dir/one.yaml"
  muster stack create one -t "$dir/one.yaml" --wait &>"$dir/muster.log"
  said "an address of $link, $routes routes of eth2"
  one "$link" 198.51.100.2/24 >"$dir/one.yaml"
  muster stack update one -t "$dir/one.yaml" --wait &>"$dir/muster.log"
  said "another address of $link"
  muster stack delete one --wait &>"$dir/muster.log"
  said "deleted: $(here route show dev eth2 proto boot | wc -l) routes of eth2 again"
done
