#!/usr/bin/env bash
# Speed and size, one line of JSON for each measurement; nothing passes or fails by it. `make bench` builds, then runs this.
# Usage: tests/bench/all.sh [--into FOLDER] [PART]…
# Parts: scale templates agent update watch sim network memory flows intents ring topology fleet idle console links postgres
# takeover overcloud salt, by default all of them; and idle=AGENTS for another number of them than 1,000 and 10,000
#
# With --into, the lines of each part also go to the page FOLDER/benchmarks.md when the part has ended.
# fsync_s, the median of a small write and fsync on the same disk, stands beside what depends on it.
set -euo pipefail
cd "$(dirname -- "$(readlink -f -- "$0")")/../.."
unset "${!MUSTER_@}"
parts=(scale templates agent update watch sim network memory flows intents ring topology fleet idle console links postgres
  takeover overcloud salt)
target=$(readlink -f -- "${CARGO_TARGET_DIR:-target}")
release=$target/release agent=$target/dist/muster-agent
dir=$(mktemp -d "${TMPDIR:-/tmp}/muster-bench.XXXXXX")
# shellcheck source=tests/bench/common.bash
. tests/bench/common.bash
remove+=("$dir")

usage() { sed -n '3,5s/^# //p' "$0" >&2; exit 2; }
# beside NAME [ARGUMENT…]: a script beside this one, with a folder of its own in $dir.
beside() {
  local name=$1; shift
  mkdir "$dir/$name"
  "tests/bench/$name.sh" "$@"
}

bench_machine() {
  local release_of_kernel
  release_of_kernel=$(uname -r)
  printf '{"bench":"machine","processors":%d,"memory_bytes":%d,"kernel":"%s","fsync_s":%s}\n' \
    "$(nproc)" "$(($(field /proc/meminfo MemTotal) * 1024))" "${release_of_kernel%%-*}" "$(fsync_s)"
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

# The same in PostgreSQL, and once more in SQLite beside it; then with agents; then one job at a time.
bench_postgres() {
  local resources round in_sqlite in_postgres more=()
  postgres_starts
  for resources in 1000 100000; do
    createdb "bench$resources"
    "$release/muster-sim" scale --shape wide --resources "$resources" --dir "$dir" --store "$postgres_url/bench$resources"
    "$release/muster-sim" scale --shape wide --resources "$resources" --dir "$dir"
  done
  createdb fleet
  mkdir "$dir/in-postgres" "$dir/in-sqlite"
  MUSTER_STORE__URL=$postgres_url/fleet tests/bench/fleet.sh "$release" "$dir/in-postgres" 1000
  tests/bench/fleet.sh "$release" "$dir/in-sqlite" 1000

  # The difference is smaller than what a machine is faster or slower by from one minute to the next.
  for round in 1 2 3 4 5; do
    createdb "one$round"
    mkdir "$dir/one-in-postgres$round" "$dir/one-in-sqlite$round"
    in_sqlite=$(tests/bench/one_file.sh "$release" "$agent" "$dir/one-in-sqlite$round")
    in_postgres=$(MUSTER_STORE__URL=$postgres_url/one$round tests/bench/one_file.sh "$release" "$agent" "$dir/one-in-postgres$round")
    printf '%s\n' "$in_sqlite" "$in_postgres"
    more+=("$(calculate \
      "($(number "$in_postgres" median_ms) - $(number "$in_sqlite" median_ms)) / $(number "$in_postgres" commit_ms)" 2)")
  done
  printf '{"bench":"one_file_update","what":"postgres - sqlite","rounds":%d,"commits_more":%s}\n' \
    "${#more[@]}" "$(printf '%s\n' "${more[@]}" | sort -n | sed -n "$((${#more[@]} / 2 + 1))p")"
}

# Reading and checking large templates; opening and laying out large groups.
bench_templates() {
  cargo bench -q -p muster-engine --bench template
  cargo bench -q -p muster-engine --bench tree
  cargo bench -q -p muster-engine --bench fleet
}

bench_agent() {
  local before after idle=60
  one_server_starts
  # What it does once after it has joined is over by then.
  sleep 30
  before=$(switches "$agent_pid")
  sleep "$idle"
  after=$(switches "$agent_pid")
  printf '{"bench":"agent","binary_bytes":%d,"rss_bytes":%d,"rss_anon_bytes":%d,"threads":%d,"idle_s":%d,"wakeups_per_10s":%s}\n' \
    "$(stat -c %s "$agent")" "$(($(field "/proc/$agent_pid/status" VmRSS) * 1024))" \
    "$(($(field "/proc/$agent_pid/status" RssAnon) * 1024))" \
    "$(field "/proc/$agent_pid/status" Threads)" "$idle" "$(calculate "($after - $before) * 10 / $idle")"
}

# On one idle node.
bench_update() {
  one_server_starts
  one_file_updates
}

bench_watch() { beside watch "$release" "$agent" "$dir/watch"; }

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
bench_memory() { beside memory "$release" "$agent" "$dir/memory"; }

bench_flows() { beside flows "$release" "$agent" "$dir/flows"; }

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
bench_fleet() { beside fleet "$release" "$dir/fleet"; }

# Pages of the console with 10,000 nodes and a stack of 100,000 resources.
bench_console() { beside console "$release" "$dir/console"; }

# Agents that have nothing to do, in processes of 5,000.
bench_idle() {
  local agents
  [ $# -gt 0 ] || set -- 1000 10000
  for agents in "$@"; do
    mkdir "$dir/idle-$agents"
    tests/bench/idle.sh "$release" "$dir/idle-$agents" "$agents"
  done
}

# Direct and Mosquitto with the same agents and jobs.
bench_links() { beside links "$release" "$dir/links"; }

# A standby of a site of 10,000 nodes and 100,000 resources.
bench_takeover() {
  local how
  for how in stop kill; do
    mkdir "$dir/takeover-$how"
    tests/bench/takeover.sh "$release" "$dir/takeover-$how" 10000 "$how"
  done
}

# TripleO's overclouds with Heat, then with Muster.
bench_overcloud() { beside overcloud "$release" "$dir/overcloud"; }

# Muster's own update of one file and memory at rest, then Salt's.
bench_salt() {
  local processes rss pss
  bench_update
  sleep 10
  read -r processes rss pss <<<"$(memory_of "$controller_pid" "$agent_pid")"
  printf '{"bench":"idle_memory","processes":%d,"rss_bytes":%d,"pss_bytes":%d}\n' "$processes" "$rss" "$pss"
  beside salt "$release" "$dir/salt"
}

into=''
if [ "${1:-}" = --into ]; then
  [ $# -ge 2 ] || usage
  into=$2
  [ -d "$into" ] || { echo "bench: $into is no folder" >&2; exit 2; }
  shift 2
fi
[ $# -gt 0 ] || set -- "${parts[@]}"
for part in "$@"; do
  [[ " ${parts[*]} " == *" $part "* || $part =~ ^idle=[1-9][0-9]*$ ]] || usage
done
for part in machine "$@"; do
  number=()
  [ "$part" = "${part#*=}" ] || number=("${part#*=}")
  part=${part%%=*}
  "bench_$part" "${number[@]}" >"$dir/lines"
  sed "s/^{/{\"part\":\"$part\",\"date\":\"$(date -u +%F)\",/" "$dir/lines" | tee "$dir/lines.json"
  [ -z "$into" ] || "$release/muster-sim" page "$dir/lines.json" --into "$into"
done
