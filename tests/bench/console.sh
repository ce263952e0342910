#!/usr/bin/env bash
# Pages of the console with many nodes, a large stack, a large flow table and many intents: how long each takes over TLS, and how large it is. The agents are in one
# process; the stack's resources are on no node. Needs root: a namespace gives the agents 16 addresses.
# Usage: tests/bench/console.sh RELEASE-DIRECTORY DIRECTORY [AGENTS [RESOURCES]]
set -euo pipefail
release=$1 dir=$2 agents=${3:-10000} resources=${4:-100000} runs=20
# shellcheck source=tests/bench/common.bash
. "$(dirname -- "$0")/common.bash"
addresses=16 patience=900
open_files "$agents"
console=https://127.0.0.1:8443

says() { grep -q "$1" "$dir/agents.log"; }
browser() { "${inside[@]}" curl -sS --cacert "$dir/data/pki/ca.crt" -b "$dir/cookies" -c "$dir/cookies" "$@"; }
# page NAME PATH
page() {
  local n bytes=0
  for n in $(seq "$runs"); do
    browser -o "$dir/page.html" -w '%{http_code} %{size_download} %{time_total}\n' "$console$2"
  done >"$dir/page.log"
  bytes=$(awk '$1 != 200 { exit 1 } $2 > most { most = $2 } END { print most }' "$dir/page.log") || fail "$1 is not shown"
  printf '{"bench":"console","page":"%s","agents":%d,"resources":%d,"bytes":%d,%s}\n' "$1" "$agents" "$resources" "$bytes" \
    "$(awk '{ print $3 * 1e6 }' "$dir/page.log" | times)"
}

make_namespace console
make_addresses "$addresses"
printf '[controller]\napi = "127.0.0.1:8443"\naddresses = ["127.0.0.1:8883"]\n' >"$dir/controller.toml"
controller 0.0.0.0:8883
controller_answers
token=$(muster node token --uses "$agents" --name 'fleet-*' --label role=web)
connect=()
for n in $(seq "$addresses"); do
  connect+=(--connect "mqtts://127.$n.0.1:8883")
done
"${inside[@]}" "$release/muster-sim" fleet --agents "$agents" --token "$token" "${connect[@]}" --idle 1 --jobs "$agents" \
  >"$dir/fleet.json" 2>"$dir/agents.log" &
needed=$!
pids=("$needed" "${pids[@]}")
cat >"$dir/large.yaml" <<END
heat_template_version: 2018-08-31
resources:
  all:
    type: OS::Heat::ResourceGroup
    properties:
      count: $resources
      resource_def: {type: OS::Heat::Value, properties: {value: "%index%"}}
END
muster stack create large -t "$dir/large.yaml" --wait &>"$dir/muster.log" || fail 'the large stack is not created'
eventually 'all agents are online' says 'waiting for .* jobs'
# A table of 65,000 entries, devices and intents on each node; what they wait for is of no importance.
rules() {
  seq 0 64999 | awk '{ printf "{\"device\":\"fleet-0/br0\",\"priority\":1,\"treatment\":[],\"selector\":{\"eth_type\":2048,\"ipv4_dst\":\"10.%d.%d.0/24\"}}\n", $1 / 256, $1 % 256 }'
  seq $((agents - 1)) | awk '{ printf "{\"device\":\"fleet-%d/br0\",\"priority\":1,\"treatment\":[]}\n", $1 }'
}
intents() {
  seq $((agents - 1)) | awk '{ printf "{\"key\":\"i-%d\",\"type\":\"point_to_point\",\"from\":{\"device\":\"fleet-0/br0\",\"port\":\"h\"},\"to\":{\"device\":\"fleet-%d/br0\",\"port\":\"h\"}}\n", $1, $1 }'
}
{ printf '{"rules":['; rules | paste -sd,; printf ']}'; } >"$dir/rules.json"
{ printf '{"intents":['; intents | paste -sd,; printf ']}'; } >"$dir/intents.json"
muster flow apply -f "$dir/rules.json" &>"$dir/muster.log" || fail 'the rules are refused'
muster intent submit -f "$dir/intents.json" &>"$dir/muster.log" || fail 'the intents are refused'
muster user create bench --role viewer >"$dir/user.token"
browser -o "$dir/page.html" --data-urlencode "token@$dir/user.token" "$console/console/login"
page fleet /console
page 'a search in the fleet' '/console?selector=role%3Dweb'
page 'a node' /console/nodes/fleet-1
page stacks /console/stacks
page 'a stack' /console/stacks/large
page resources /console/stacks/large/resources
page events /console/stacks/large/events
page rollouts /console/rollouts
page devices /console/devices
page 'a flow table' /console/devices/fleet-0/br0
page 'a search in a flow table' '/console/devices/fleet-0/br0?search=10.200.'
page intents /console/intents
page network /console/network
page audit /console/audit
