#!/usr/bin/env bash
# A fleet of agents in one process, with their real machines and connections, against the controller as it is shipped: joining,
# an idle minute, one resource for each node created and updated, one that drifts, a storm, a restart of the controller.
# Needs root: a namespace gives the agents 16 addresses, for a controller hears 1,024 at a time from each.
# Usage: tests/bench/fleet.sh RELEASE-DIRECTORY DIRECTORY [AGENTS]
set -euo pipefail
release=$1 dir=$2 agents=${3:-10000} idle=60
name=muster-fleet-$$ connect=()
controller_pid='' fleet_pid=''
ulimit -n "$(ulimit -Hn)"

finish() {
  local pid
  for pid in $fleet_pid $controller_pid; do
    kill "$pid" 2>/dev/null || :
    wait "$pid" 2>/dev/null || :
  done
  ip netns del "$name"
}
ip netns add "$name"
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

muster() { "$release/muster" --url "unix://$dir/fleet.sock" "$@"; }
controller() {
  ip netns exec "$name" "$release/muster-controller" --config "$dir/empty.toml" --data-dir "$dir/fleet" --listen 0.0.0.0:8883 \
    --api-socket "$dir/fleet.sock" >>"$dir/fleet-controller.log" 2>&1 &
  controller_pid=$!
}
# eventually WHAT COMMAND…
eventually() {
  local what=$1; shift
  for _ in $(seq 18000); do
    ! "$@" >/dev/null 2>&1 || return 0
    kill -0 "${fleet_pid:-$$}" 2>/dev/null || break
    sleep 0.05
  done
  echo "bench: waited in vain until $what" >&2
  tail -n 20 "$dir"/fleet*.log >&2
  exit 1
}
says() { grep -q "$1" "$dir/fleet-agents.log"; }
# timed WHAT COMMAND…
timed() {
  local what=$1 began ended; shift
  began=${EPOCHREALTIME/./}
  "$@" &>"$dir/fleet-muster.log" || { tail -n 20 "$dir/fleet-muster.log" >&2; exit 1; }
  ended=${EPOCHREALTIME/./}
  awk -v what="$what" -v agents="$agents" -v took=$((ended - began)) \
    'BEGIN { printf "{\"bench\":\"fleet\",\"what\":\"%s\",\"agents\":%d,\"seconds\":%.3f}\n", what, agents, took / 1e6 }'
}

: >"$dir/empty.toml"
ip -n "$name" link set lo up
for n in $(seq 16); do
  ip -n "$name" route replace local "127.$n.0.0/16" dev lo src "127.$n.0.1" table local
  connect+=(--connect "mqtts://127.$n.0.1:8883")
done
controller
eventually 'the controller answers' muster node list
token=$(muster node token --uses "$agents" --name 'fleet-*' --label role=web)
ip netns exec "$name" "$release/muster-sim" fleet --agents "$agents" --token "$token" "${connect[@]}" --idle "$idle" \
  --jobs $((2 * agents)) --drift 1 --storm --restart --controller-pid "$controller_pid" \
  >"$dir/fleet.json" 2>"$dir/fleet-agents.log" &
fleet_pid=$!
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
kill -9 "$controller_pid"
wait "$controller_pid" 2>/dev/null || :
controller
wait "$fleet_pid" || { tail -n 20 "$dir/fleet-agents.log" >&2; exit 1; }
fleet_pid=''
sed 's/^{/{"bench":"fleet",/' "$dir/fleet.json"
