#!/usr/bin/env bash
# A fleet of agents in one process, with their real machines and connections, against the controller as it is shipped: joining,
# an idle minute, one resource for each node created and updated, one that drifts, a storm, a restart of the controller.
# Needs root: a namespace gives the agents 16 addresses.
# Usage: tests/bench/fleet.sh RELEASE-DIRECTORY DIRECTORY [AGENTS]
set -euo pipefail
release=$1 dir=$2 agents=${3:-10000} idle=60
# shellcheck source=tests/bench/common.bash
. "$(dirname -- "$0")/common.bash"
store=${MUSTER_STORE__URL:-sqlite}
store=${store%%:*} addresses=16 patience=900
open_files "$agents"

says() { grep -q "$1" "$dir/agents.log"; }
# timed WHAT COMMAND…
timed() {
  local what=$1 began ended; shift
  began=${EPOCHREALTIME/./}
  "$@" &>"$dir/muster.log" || fail "$what failed"
  ended=${EPOCHREALTIME/./}
  printf '{"bench":"fleet","what":"%s","store":"%s","agents":%d,"seconds":%s}\n' \
    "$what" "$store" "$agents" "$(calculate "($ended - $began) / 1e6")"
}

make_namespace fleet
make_addresses "$addresses"
controller 0.0.0.0:8883
controller_answers
token=$(muster node token --uses "$agents" --name 'fleet-*' --label role=web)
connect=()
for n in $(seq "$addresses"); do
  connect+=(--connect "mqtts://127.$n.0.1:8883")
done
"${inside[@]}" "$release/muster-sim" fleet --agents "$agents" --token "$token" "${connect[@]}" --idle "$idle" \
  --jobs $((2 * agents)) --drift 1 --storm --restart --controller-pid "$controller_pid" \
  >"$dir/fleet.json" 2>"$dir/agents.log" &
needed=$!
pids=("$needed" "${pids[@]}")
cat >"$dir/fleet.yaml" <<END
heat_template_version: 2018-08-31
parameters:
  word: {type: string}
resources:
  motd:
    type: Muster::File
    for_each: {nodes: role=web}
    drift_policy: correct
    properties: {path: /etc/motd, content: {get_param: word}}
END
eventually 'all agents are online' says 'waiting for .* jobs'
timed 'one file for each node created' muster stack create all -t "$dir/fleet.yaml" -P word=one --wait
timed 'one file for each node updated' muster stack update all --existing -P word=two --wait
eventually 'the storm is over' says 'waiting for the controller'
stop "$controller_pid" KILL
controller 0.0.0.0:8883
wait "$needed" || fail 'the fleet failed'
sed "s/^{/{\"bench\":\"fleet\",\"what\":\"all phases\",\"store\":\"$store\",/" "$dir/fleet.json"
