#!/usr/bin/env bash
# A standby takes over a site of 10,000 nodes and 100,000 resources in PostgreSQL, in the middle of an update of all: the active
# controller stops in order and gives its lease up, or is killed and does not. Times from then on, until the standby's first job
# has come to an agent. Nothing acknowledged may be asked for again, nor anything older: the fleets fail then.
# The agents share the machine with what is measured, and their handshakes cost them seconds of its processors: so all but a
# hundred yield to it. These hundred have a process of their own, and answer as agents on machines of their own do.
# Needs root, and PostgreSQL's programs. Usage: tests/bench/takeover.sh RELEASE-DIRECTORY DIRECTORY [AGENTS [stop|kill]]
set -euo pipefail
release=$1 dir=$2 agents=${3:-10000} how=${4:-stop} files=10 near=100
case $how in
  stop) signal=TERM ;;
  kill) signal=KILL ;;
  *) echo 'error: how the controller ends: stop or kill' >&2; exit 2 ;;
esac
[ "$agents" -gt "$near" ] || { echo "error: more than $near agents" >&2; exit 2; }
# shellcheck source=tests/bench/common.bash
. "$(dirname -- "$0")/common.bash"
addresses=16 patience=900
resources=$((agents * files))
open_files "$agents"

# A controller in a folder of its own; its process id is in ids[NAME].
declare -A ids
starts() {
  local name=$1 port=$2
  mkdir -p "$dir/$name"
  : >"$dir/controller.toml"
  background "$name" "$release/muster-controller" --config "$dir/controller.toml" --data-dir "$dir/$name" \
    --listen "0.0.0.0:$port" --api-socket "$dir/$name.sock"
  ids[$name]=$pid
}
# at NAME ARGUMENT…: muster, asking this controller.
at() { local name=$1; shift; "$release/muster" --url "unix://$dir/$name.sock" "$@"; }
is() { at "$1" status | grep -q "^controller *$2 "; }
# fleet NAME PREFIX AGENTS NICENESS: until all resources are made and a hundredth of the update has run, and then until it has another controller.
fleet() {
  local name=$1 jobs=$(($3 * files + $3 * files / 100))
  nice -n "$4" "${inside[@]}" "$release/muster-sim" fleet --agents "$3" --prefix "$2" --token "$token" "${connect[@]}" \
    --jobs "$jobs" --restart --within "$patience" >"$dir/$name.json" 2>"$dir/$name.log" &
  needed=$!
  pids=("$needed" "${pids[@]}")
}
says() { grep -q "$1" "$dir/near.log" && grep -q "$1" "$dir/agents.log"; }
# when NAME TEXT: the time of the last line of its log with this text, in seconds since 1970.
when() { date -d "$(sed 's/\x1b\[[0-9;]*m//g' "$dir/$1.log" | grep -F "$2" | tail -n 1 | cut -d' ' -f1)" +%s.%N; }

make_namespace takeover
make_addresses "$addresses"
postgres_starts
createdb site
export MUSTER_STORE__URL=$postgres_url/site
MUSTER_CONTROLLER__NAME=one starts one 8883
eventually 'the first controller is active' is one active
mkdir "$dir/two"
cp "$dir/one/secrets.key" "$dir/two/"
MUSTER_CONTROLLER__NAME=two starts two 9883
eventually 'the second one stands by' is two standby

{
  printf 'heat_template_version: 2018-08-31\nparameters: {word: {type: string}}\nresources:\n'
  for n in $(seq "$files"); do
    echo "  file$n: {type: Muster::File, properties: {path: /etc/file$n, content: {get_param: word}}, for_each: {nodes: role=web}}"
  done
} >"$dir/site.yaml"
connect=()
for n in $(seq "$addresses"); do
  connect+=(--connect "mqtts://127.$n.0.1:8883,mqtts://127.$n.0.1:9883")
done
token=$(at one node token --uses "$agents" --name 'fleet-*' --label role=web)
fleet near fleet-near- "$near" 0
near_id=$needed
fleet agents fleet- "$((agents - near))" 15
eventually 'all agents are online' says 'waiting for .* jobs'
at one stack create all -t "$dir/site.yaml" -P word=one --wait &>"$dir/muster.log" || fail 'the site cannot be created'
at one stack update all --existing -P word=two &>"$dir/muster.log" || fail 'the update is refused'
eventually 'the update is under way' says "waiting for the controller's restart"
stopped=$EPOCHREALTIME
stop "${ids[one]}" "$signal"
for id in "$near_id" "$needed"; do
  wait "$id" || fail 'a fleet failed'
done

# A lease that was not given up is free when it has run out: that is a part of what counts.
if [ "$how" = kill ]; then free=$stopped; else free=$(when one 'this controller has given the lease up'); fi
first=$(grep -oh '"first_job_at":[0-9.]*' "$dir/near.json" "$dir/agents.json" | cut -d: -f2 | sort -n | head -n 1)
[ -n "$first" ] || fail 'no job came after the take-over'
# The jobs of both fleets a second, from the first one to the fault.
jobs=$(grep -oh '"jobs_per_s":[0-9.]*' "$dir/near.json" "$dir/agents.json" | cut -d: -f2 | paste -sd+ -)
printf '{"bench":"takeover","what":"%s","nodes":%d,"resources":%d,"jobs_per_s":%s,"stopped_to_free_s":%s,"taken_s":%s,"ready_s":%s,"first_job_s":%s,"all_back_s":%s,"fsync_s":%s}\n' \
  "$how" "$agents" "$resources" "$(calculate "$jobs")" "$(calculate "$free - $stopped")" "$(calculate "$(when two 'this controller has the lease') - $free")" \
  "$(calculate "$(when two ' ready ') - $free")" "$(calculate "$first - $free")" \
  "$(grep -o '"restart_s":[0-9.]*' "$dir/agents.json" | cut -d: -f2)" "$(fsync_s)"
