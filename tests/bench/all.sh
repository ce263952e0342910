#!/usr/bin/env bash
# Speed and size, one line of JSON for each measurement; nothing passes or fails by it. `make bench` builds, then runs this.
# Usage: tests/bench/all.sh [scale|templates|agent|update|watch|sim|network|memory|flows|intents|ring|topology|fleet|links|postgres]…     all of them by default
#
# fsync_s, the median of a small write and fsync on the same disk, stands beside what depends on it.
set -euo pipefail
cd "$(dirname -- "$(readlink -f -- "$0")")/../.."
unset "${!MUSTER_@}"
target=$(readlink -f -- "${CARGO_TARGET_DIR:-target}")
release=$target/release agent=$target/dist/muster-agent
dir=$(mktemp -d "${TMPDIR:-/tmp}/muster-bench.XXXXXX")
controller_pid='' agent_pid='' postgres_pid='' postgres=''

finish() {
  local pid
  for pid in $agent_pid $controller_pid $postgres_pid; do
    kill "$pid" 2>/dev/null || :
    wait "$pid" 2>/dev/null || :
  done
  rm -rf -- "$dir" ${postgres:+"$postgres"}
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

muster() { "$release/muster" --url "unix://$dir/api.sock" "$@"; }
fsync_s() {
  local line
  line=$("$release/muster-sim" scale --shape wide --resources 10 --dir "$dir")
  [[ $line =~ \"fsync_s\":([0-9.e-]+) ]] && echo "${BASH_REMATCH[1]}"
}
eventually() {
  local what=$1; shift
  for _ in $(seq 600); do
    ! "$@" >/dev/null 2>&1 || return 0
    sleep 0.05
  done
  echo "bench: waited in vain until $what" >&2
  tail -n 20 "$dir"/*.log >&2
  exit 1
}
online() { muster node list | grep -q 'bench-1 *online'; }

# A controller and one agent on loopback, as they are shipped.
start() {
  local port=$((20000 + RANDOM % 10000))
  [ -z "$controller_pid" ] || return 0
  : >"$dir/empty.toml"
  "$release/muster-controller" --config "$dir/empty.toml" --data-dir "$dir/data" --listen "127.0.0.1:$port" \
    --api-socket "$dir/api.sock" >"$dir/controller.log" 2>&1 &
  controller_pid=$!
  eventually 'the controller answers' muster node list
  "$agent" --config "$dir/empty.toml" --state-dir "$dir/state" join "$(muster node token --name bench-1)" --name bench-1 >"$dir/agent.log" 2>&1 &
  agent_pid=$!
  eventually 'the agent is online' online
}

bench_scale() {
  local shape resources
  for resources in 1000 100000 1000000; do
    "$release/muster-sim" scale --shape wide --resources "$resources" --dir "$dir"
  done
  for shape in chain fanin layers; do
    "$release/muster-sim" scale --shape "$shape" --resources 10000 --dir "$dir"
  done
}

# The same in a PostgreSQL server of its own on the same disk, and once more in SQLite beside it.
bench_postgres() {
  local programs resources
  programs=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -1)
  as_postgres() { setpriv --reuid postgres --regid postgres --clear-groups -- "$@"; }
  postgres=$(mktemp -d "${TMPDIR:-/tmp}/muster-postgres.XXXXXX")
  chown postgres "$postgres"
  as_postgres "$programs/initdb" --auth=trust --username=muster --encoding=UTF8 --locale=C -D "$postgres/data" >"$dir/initdb.log"
  as_postgres "$programs/postgres" -D "$postgres/data" -c listen_addresses= -c unix_socket_directories="$postgres" \
    >"$dir/postgres.log" 2>&1 &
  postgres_pid=$!
  eventually 'PostgreSQL answers' "$programs/pg_isready" -h "$postgres"
  for resources in 1000 100000; do
    "$programs/createdb" -h "$postgres" -U muster "bench$resources"
    "$release/muster-sim" scale --shape wide --resources "$resources" --dir "$dir" \
      --store "postgres://muster@${postgres//\//%2F}/bench$resources"
    "$release/muster-sim" scale --shape wide --resources "$resources" --dir "$dir"
  done
  # And with agents.
  "$programs/createdb" -h "$postgres" -U muster fleet
  mkdir "$dir/postgres-fleet" "$dir/sqlite-fleet"
  MUSTER_STORE__URL="postgres://muster@${postgres//\//%2F}/fleet" tests/bench/fleet.sh "$release" "$dir/postgres-fleet" 1000
  tests/bench/fleet.sh "$release" "$dir/sqlite-fleet" 1000
}

# Reading and checking large templates; opening and laying out large groups.
bench_templates() {
  cargo bench -q -p muster-engine --bench template
  cargo bench -q -p muster-engine --bench tree
  cargo bench -q -p muster-engine --bench fleet
}

# field FILE NAME: of a file in /proc, such as VmRSS or voluntary_ctxt_switches
field() { awk -v name="$2:" '$1 == name { print $2 }' "$1"; }
switches() {
  local sum=0 task
  for task in /proc/"$agent_pid"/task/*/status; do
    sum=$((sum + $(field "$task" voluntary_ctxt_switches)))
  done
  echo "$sum"
}
bench_agent() {
  local before after idle=60
  start
  before=$(switches)
  sleep "$idle"
  after=$(switches)
  printf '{"bench":"agent","binary_bytes":%d,"rss_bytes":%d,"threads":%d,"idle_s":%d,"wakeups_per_10s":%s}\n' \
    "$(stat -c %s "$agent")" "$(($(field "/proc/$agent_pid/status" VmRSS) * 1024))" \
    "$(field "/proc/$agent_pid/status" Threads)" "$idle" "$(awk "BEGIN { print ($after - $before) * 10 / $idle }")"
}

# From starting `muster stack update --wait` to its exit, on one idle node with one file.
bench_update() {
  local runs=101 run began ended
  start
  cat >"$dir/one.yaml" <<-END
	heat_template_version: 2018-08-31
	parameters:
	  word: {type: string}
	resources:
	  file:
	    type: Muster::File
	    properties: {node: bench-1, path: $dir/file, content: {get_param: word}}
	END
  muster stack create one -t "$dir/one.yaml" -P word=0 --wait &>"$dir/muster.log"
  for run in $(seq "$runs"); do
    began=${EPOCHREALTIME/./}
    muster stack update one --existing -P "word=$run" --wait &>"$dir/muster.log"
    ended=${EPOCHREALTIME/./}
    [ "$(<"$dir/file")" = "$run" ] || { echo "bench: the file does not say $run" >&2; exit 1; }
    echo $((ended - began))
  done | sort -n >"$dir/times"
  awk -v fsync="$(fsync_s)" '{ t[NR] = $1 / 1000 } END {
    printf "{\"bench\":\"one_file_update\",\"runs\":%d,\"min_ms\":%.2f,\"median_ms\":%.2f,\"p95_ms\":%.2f,\"max_ms\":%.2f,\"fsync_s\":%s}\n",
      NR, t[1], t[int((NR + 1) / 2)], t[int(NR * 0.95)], t[NR], fsync }' "$dir/times"
  muster stack delete one --wait &>"$dir/muster.log"
}

bench_watch() { tests/bench/watch.sh "$release" "$agent" "$dir"; }

# Simulated sites of 10 nodes, 3 stacks and 20 virtual minutes with heavy faults, on two threads.
bench_sim() {
  local seeds=400 began ended
  began=${EPOCHREALTIME/./}
  "$release/muster-sim" run --seed 1 --seeds "$seeds" --faults heavy >"$dir/sim.log" || tail -n 5 "$dir/sim.log" >&2
  ended=${EPOCHREALTIME/./}
  awk -v seeds="$seeds" -v us="$((ended - began))" 'BEGIN {
    printf "{\"bench\":\"sim\",\"seeds\":%d,\"seconds\":%.2f,\"seeds_per_minute\":%.0f}\n", seeds, us / 1e6, seeds * 6e7 / us }'
}

# A document with 200 VLAN ports and 400 routes on a real Open vSwitch; a snapshot of 10,000 routes. Needs root.
bench_network() { cargo bench -q -p muster-host --bench network; }

# Each has a switch of its own.
bench_memory() { mkdir "$dir/memory" && tests/bench/memory.sh "$release" "$agent" "$dir/memory"; }

bench_flows() { mkdir "$dir/flows" && tests/bench/flows.sh "$release" "$agent" "$dir/flows"; }

# Submitted, compiled, moved: on one core, with devices that cost nothing.
bench_intents() { cargo bench -q -p muster-engine --bench intent; }

# A cable of six real switches is cut under a thousand packets a second, again and again: milliseconds are packets. Each cut
# ends with rules that are on the controller's disk and on those of the switches' agents.
bench_ring() {
  MUSTER_RING_CUTS=11 cargo test -q --release -p muster-tests --test processes -- --nocapture intent_ring:: | grep '^{"bench"' |
    sed "s/}\$/,\"fsync_s\":$(fsync_s)}/"
}

# Intents over 10,000 bridges, of which cables fail and heal.
bench_topology() {
  local shape
  for shape in fat-tree leaf-spine ring random; do
    "$release/muster-sim" topology --shape "$shape" --devices 10000 --intents 1000 --faults 200
  done
}

# 10,000 agents in one process.
bench_fleet() { mkdir "$dir/fleet" && tests/bench/fleet.sh "$release" "$dir/fleet"; }

# Direct and Mosquitto with the same agents and jobs.
bench_links() { mkdir "$dir/links" && tests/bench/links.sh "$release" "$dir/links"; }

[ $# -gt 0 ] || set -- scale templates agent update watch sim network memory flows intents ring topology fleet links postgres
for bench in "$@"; do
  case $bench in
    scale | templates | agent | update | watch | sim | network | memory | flows | intents | ring | topology | fleet | links | postgres) "bench_$bench" ;;
    *) sed -n '2,5s/^# //p' "$0" >&2; exit 2 ;;
  esac
done
