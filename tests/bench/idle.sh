#!/usr/bin/env bash
# A fleet that has nothing to do: the controller's part of a core over a minute, after a first one, and its memory, one file for
# each node, and the storm when all connections break at once. One fleet process has 5,000 agents, so 100,000 are twenty.
# Needs root: a namespace gives the agents an address for each thousand. A connection is an open file, of which the controller
# may have as many as 'ulimit -Hn' says.
# Usage: tests/bench/idle.sh RELEASE-DIRECTORY DIRECTORY AGENTS
set -euo pipefail
release=$1 dir=$2 agents=$3 each=5000 idle=60 heartbeat=60
# shellcheck source=tests/bench/common.bash
. "$(dirname -- "$0")/common.bash"
addresses=$((agents / 1000 + 16)) patience=$((600 + agents / 50))
open_files "$agents"

fleets=$(((agents + each - 1) / each))
tokens=() lines=()
# all_say TEXT: each fleet has said it.
all_say() {
  local fleet
  for fleet in $(seq "$fleets"); do
    grep -q "$1" "$dir/fleet-$fleet.log" || return 1
  done
}
# largest NAME: of the fleets' figures.
largest() { grep -ho "\"$1\":[0-9.]*" "$dir"/fleet-*.json | cut -d: -f2 | sort -g | tail -n 1; }
sum() { grep -ho "\"$1\":[0-9.]*" "$dir"/fleet-*.json | cut -d: -f2 | awk '{ sum += $1 } END { printf "%d", sum }'; }
rss() { echo "$(($(field "/proc/$controller_pid/status" VmRSS) * 1024))"; }

make_namespace idle
make_addresses "$addresses"
export MUSTER_LIMITS__CONNECTIONS=$((agents + 1000))
controller 0.0.0.0:8883
controller_answers
empty=$(rss)
connect=()
for n in $(seq "$addresses"); do
  connect+=(--connect "mqtts://127.$n.0.1:8883")
done
for fleet in $(seq "$fleets"); do
  members=$((agents / fleets + (fleet <= agents % fleets)))
  tokens+=("$(muster node token --uses "$members" --name "fleet-$fleet-*" --label role=web)")
  # The storm begins with a line.
  mkfifo "$dir/go-$fleet"
  "${inside[@]}" "$release/muster-sim" fleet --agents "$members" --prefix "fleet-$fleet-" --token "${tokens[-1]}" "${connect[@]}" \
    --storm --at-line --within "$patience" <"$dir/go-$fleet" >"$dir/fleet-$fleet.json" 2>"$dir/fleet-$fleet.log" &
  needed=$!
  pids=("$needed" "${pids[@]}")
  exec {line}>"$dir/go-$fleet"
  lines+=("$line")
done
eventually 'all agents are online' all_say 'waiting for a line'

# What follows a connection, such as facts and a look at everything, is over within a heartbeat.
sleep "$heartbeat"
before=$(cpu "$controller_pid")
sleep "$idle"
percent=$(calculate "($(cpu "$controller_pid") - $before) * 100 / $idle")
with_agents=$(rss)

cat >"$dir/fleet.yaml" <<END
heat_template_version: 2018-08-31
resources:
  motd:
    type: Muster::File
    for_each: {nodes: role=web}
    properties: {path: /etc/motd, content: hello}
END
began=${EPOCHREALTIME/./}
muster stack create all -t "$dir/fleet.yaml" --wait --timeout "$patience" &>"$dir/muster.log" || fail 'one file for each failed'
created=$(calculate "(${EPOCHREALTIME/./} - $began) / 1e6")

before=$(cpu "$controller_pid")
for line in "${lines[@]}"; do
  echo >&"$line"
done
for pid in "${pids[@]}"; do
  [ "$pid" = "$controller_pid" ] || wait "$pid" || fail 'a fleet failed'
done
spent=$(calculate "$(cpu "$controller_pid") - $before")
printf '{"bench":"idle","agents":%d,"processes":%d,"idle_s":%d,"controller_percent":%s,"empty_rss_bytes":%d,"controller_rss_bytes":%d,"bytes_per_agent":%s,"online_s":%s,"one_file_each_s":%s,"storm_s":%s,"storm_controller_cpu_s":%s,"after_storm_rss_bytes":%d,"fleet_rss_bytes":%s}\n' \
  "$agents" "$fleets" "$idle" "$percent" "$empty" "$with_agents" "$(calculate "($with_agents - $empty) / $agents" 0)" \
  "$(largest online_s)" "$created" "$(largest storm_s)" "$spent" "$(rss)" "$(sum rss_bytes)"
