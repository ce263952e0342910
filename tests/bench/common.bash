# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # scripts set variables for it, and it sets some for them
# What the benchmarks share. Whoever sources it has set $release, the folder of the release builds, and $dir, a folder of its
# own. At the end the processes that it started are stopped, the last one first, and its network namespace is removed.

pids=() namespace='' inside=() remove=()
controller_pid='' agent_pid=''
# eventually: how long it waits, and pauses between two looks; both in seconds. $needed is a process without which it gives up.
patience=30 pause=0.05 needed=''

finish() {
  local pid
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null || :
    wait "$pid" 2>/dev/null || :
  done
  [ -z "$namespace" ] || ip netns del "$namespace"
  [ "${#remove[@]}" = 0 ] || rm -rf -- "${remove[@]}"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
  echo "bench: $1" >&2
  tail -n 20 "$dir"/*.log >&2
  exit 1
}
# eventually WHAT COMMAND…
eventually() {
  local what=$1 until=$((SECONDS + patience)); shift
  while [ "$SECONDS" -le "$until" ]; do
    ! "$@" >/dev/null 2>&1 || return 0
    [ -z "$needed" ] || kill -0 "$needed" 2>/dev/null || fail "a process ended before $what"
    sleep "$pause"
  done
  fail "waited in vain until $what"
}

# A network namespace of this script's own; "${inside[@]}" before a command runs that in it.
make_namespace() {
  local name=muster-$1-$$
  ip netns add "$name"
  namespace=$name inside=(ip netns exec "$name")
  ip -n "$namespace" link set lo up
}
# So many addresses, each with its own way from 127.N.0.1 to itself: a controller hears 1,024 greetings at a time from each.
make_addresses() {
  local n
  for n in $(seq "$1"); do
    ip -n "$namespace" route replace local "127.$n.0.0/16" dev lo src "127.$n.0.1" table local
  done
}

# background LOG COMMAND…: in the namespace, where there is one. Its process id is in $pid.
background() {
  local log=$1; shift
  "${inside[@]}" "$@" >>"$dir/$log.log" 2>&1 &
  pid=$!
  pids=("$pid" "${pids[@]}")
}
# stop PID [SIGNAL]: and waits for its end.
stop() {
  local each left=()
  kill "-${2:-TERM}" "$1" 2>/dev/null || :
  wait "$1" 2>/dev/null || :
  for each in "${pids[@]}"; do
    [ "$each" = "$1" ] || left+=("$each")
  done
  pids=("${left[@]}")
}

muster() { "$release/muster" --url "unix://$dir/api.sock" "$@"; }
# controller ADDRESS [DATA-DIRECTORY]
controller() {
  [ -e "$dir/controller.toml" ] || : >"$dir/controller.toml"
  background controller "$release/muster-controller" --config "$dir/controller.toml" --data-dir "${2:-$dir/data}" \
    --listen "$1" --api-socket "$dir/api.sock"
  controller_pid=$pid
}
controller_answers() { eventually 'the controller answers' muster status; }
# agent_joins NAME [VARIABLE=VALUE…]: the agent $agent, until it is online.
agent_joins() {
  local name=$1; shift
  : >"$dir/agent.toml"
  background agent env "$@" "$agent" --config "$dir/agent.toml" --state-dir "$dir/state" \
    join "$(muster node token --name "$name")" --name "$name"
  agent_pid=$pid
  eventually 'the agent is online' is_online "$name"
}
is_online() { muster node list | grep -q "$1 *online"; }

# A controller and the agent $agent on loopback, as they are shipped.
one_server_starts() {
  [ -z "$controller_pid" ] || return 0
  controller "127.0.0.1:$((20000 + RANDOM % 10000))"
  controller_answers
  agent_joins bench-1
}
# Commits of the controller so far, and the seconds that they took.
commits() {
  curl -sf --unix-socket "$dir/api.sock" http://muster/metrics | awk '
    $1 == "muster_store_commit_duration_seconds_count" { count = $2 }
    $1 == "muster_store_commit_duration_seconds_sum" { sum = $2 }
    END { print count, sum }'
}
# A file of that server, updated again and again: from starting `muster stack update --wait` to its exit.
one_file_updates() {
  local runs=101 run began ended store=${MUSTER_STORE__URL:-sqlite} commits_before commits_after
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
  read -ra commits_before <<<"$(commits)"
  for run in $(seq "$runs"); do
    began=${EPOCHREALTIME/./}
    muster stack update one --existing -P "word=$run" --wait &>"$dir/muster.log"
    ended=${EPOCHREALTIME/./}
    [ "$(<"$dir/file")" = "$run" ] || fail "the file does not say $run"
    echo $((ended - began))
  done >"$dir/times"
  read -ra commits_after <<<"$(commits)"
  printf '{"bench":"one_file_update","store":"%s",%s,"commits":%s,"commit_ms":%s}\n' "${store%%:*}" "$(times <"$dir/times")" \
    "$(calculate "(${commits_after[0]} - ${commits_before[0]}) / $runs" 1)" \
    "$(calculate "(${commits_after[1]} - ${commits_before[1]}) * 1000 / (${commits_after[0]} - ${commits_before[0]})")"
  muster stack delete one --wait &>"$dir/muster.log"
}

# An Open vSwitch in user space.
switch_starts() {
  export OVS_RUNDIR=$dir/ovs OVS_DBDIR=$dir/ovs OVS_LOGDIR=$dir/ovs OVS_SYSCONFDIR=$dir/ovs
  mkdir "$dir/ovs"
  ovsdb-tool create "$dir/ovs/conf.db" /usr/share/openvswitch/vswitch.ovsschema
  background ovsdb ovsdb-server "$dir/ovs/conf.db" "--remote=punix:$dir/ovs/db.sock"
  vsctl --retry --no-wait init
  background vswitchd ovs-vswitchd "unix:$dir/ovs/db.sock" --disable-system
  switch_pid=$pid
}
vsctl() { ovs-vsctl --db="unix:$dir/ovs/db.sock" --timeout=30 "$@"; }

# A PostgreSQL server of its own on the same disk; $postgres_url lacks the database's name.
postgres_starts() {
  local as_postgres=(setpriv --reuid postgres --regid postgres --clear-groups --)
  postgres_programs=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
  # The server's user does not reach $dir.
  postgres_place=$(mktemp -d "${TMPDIR:-/tmp}/muster-postgres.XXXXXX")
  remove+=("$postgres_place")
  chown postgres "$postgres_place"
  "${as_postgres[@]}" "$postgres_programs/initdb" --auth=trust --username=muster --encoding=UTF8 --locale=C \
    -D "$postgres_place/data" >"$dir/initdb.log"
  background postgres "${as_postgres[@]}" "$postgres_programs/postgres" -D "$postgres_place/data" \
    -c listen_addresses= -c unix_socket_directories="$postgres_place"
  eventually 'PostgreSQL answers' "$postgres_programs/pg_isready" -h "$postgres_place"
  postgres_url=postgres://muster@${postgres_place//\//%2F}
}
createdb() { "$postgres_programs/createdb" -h "$postgres_place" -U muster "$1"; }

# field FILE NAME: of a file in /proc, such as VmRSS.
field() { awk -v name="$2:" '$1 == name { print $2 }' "$1"; }
# How often the threads of a process have gone to sleep.
switches() { awk '$1 == "voluntary_ctxt_switches:" { sum += $2 } END { print sum }' "/proc/$1"/task/*/status; }
# Seconds of processor time that a process has had.
cpu() { awk -v tick="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); printf "%.2f", ($12 + $13) / tick }' "/proc/$1/stat"; }
# memory_of PID…: how many processes these and their descendants are, their memory in bytes, and the same with pages that several
# have counted once.
memory_of() {
  local ids each rss=0 pss=0 count=0
  ids=$(ps -eo pid=,ppid= | awk -v roots="$*" '
    BEGIN { split(roots, list, " "); for (n in list) within[list[n]] = 1 }
    { parent[$1] = $2 }
    END {
      do {
        more = 0
        for (id in parent) if (!(id in within) && (parent[id] in within)) more = within[id] = 1
      } while (more)
      for (id in within) print id
    }')
  for each in $ids; do
    [ -r "/proc/$each/smaps_rollup" ] || continue
    rss=$((rss + $(field "/proc/$each/smaps_rollup" Rss)))
    pss=$((pss + $(field "/proc/$each/smaps_rollup" Pss)))
    count=$((count + 1))
  done
  echo "$count $((rss * 1024)) $((pss * 1024))"
}
calculate() { awk "BEGIN { printf \"%.${2:-3}f\", $1 }"; }
# The median of a small write and fsync where $dir is.
fsync_s() {
  local line
  line=$("$release/muster-sim" scale --shape wide --resources 10 --dir "$dir")
  [[ $line =~ \"fsync_s\":([0-9.e-]+) ]] && echo "${BASH_REMATCH[1]}"
}
# Times in us, one a line: as the fields of a measurement.
times() {
  sort -n | awk -v fsync="$(fsync_s)" '{ t[NR] = $1 / 1000 } END {
    printf "\"runs\":%d,\"min_ms\":%.2f,\"median_ms\":%.2f,\"p95_ms\":%.2f,\"max_ms\":%.2f,\"fsync_s\":%s",
      NR, t[1], t[int((NR + 1) / 2)], t[int(NR * 0.95)], t[NR], fsync }'
}
# number LINE NAME: of a measurement.
number() { [[ $1 =~ \"$2\":([0-9.]+) ]] && echo "${BASH_REMATCH[1]}"; }
# open_files AGENTS: a connection is a file, for the controller as for the fleet.
open_files() {
  local wanted=$(($1 + 200)) allowed
  allowed=$(ulimit -Hn)
  if [ "$allowed" != unlimited ] && [ "$allowed" -lt "$wanted" ]; then
    echo "bench: $1 agents need $wanted open files, and $allowed are allowed: raise the hard limit (ulimit -Hn $wanted), or ask" \
      "for $((allowed - 200)) agents at most" >&2
    exit 1
  fi
  ulimit -n "$allowed"
}
