#!/usr/bin/env bash
# The direct link and Mosquitto, one after the other, with the same agents and jobs in the same namespace: all agents connect,
# one file for each is created and updated, all connections are dropped at once. Durable commits on both. The last line has the
# ratios: of jobs and connects per second more is better for the direct link, of the storm less.
# Needs root, mosquitto and openssl. Usage: tests/bench/links.sh RELEASE-DIRECTORY DIRECTORY [AGENTS]
set -euo pipefail
release=$1 dir=$2 agents=${3:-2000}
here=$(dirname -- "$(readlink -f -- "$0")")
example=$here/../../examples/mosquitto
name=muster-links-$$
controller_pid='' broker_pid='' fleet_pid=''
ulimit -n "$(ulimit -Hn)"

end() {
  local pid
  for pid in $fleet_pid $controller_pid $broker_pid; do
    kill "$pid" 2>/dev/null || :
    wait "$pid" 2>/dev/null || :
  done
  fleet_pid='' controller_pid='' broker_pid=''
}
finish() {
  end
  ip netns del "$name"
}
ip netns add "$name"
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
ip -n "$name" link set lo up

muster() { "$release/muster" --url "unix://$dir/links.sock" "$@"; }
controller() {
  ip netns exec "$name" "$release/muster-controller" --config "$dir/links.toml" --data-dir "$dir/$link" --listen 127.0.0.1:9883 \
    --api-socket "$dir/links.sock" >>"$dir/links-$link.log" 2>&1 &
  controller_pid=$!
  eventually 'the controller answers' muster node list
}
# eventually WHAT COMMAND…
eventually() {
  local what=$1; shift
  for _ in $(seq 12000); do
    ! "$@" >/dev/null 2>&1 || return 0
    kill -0 "${fleet_pid:-$$}" 2>/dev/null || break
    sleep 0.05
  done
  echo "bench: waited in vain until $what" >&2
  tail -n 20 "$dir"/links*.log >&2
  exit 1
}
says() { grep -q "$1" "$dir/links-agents.log"; }
connected() { muster status -o json | grep -q '"link_problem": *null'; }

# Mosquitto as docs/brokers.md sets it up, for the site that the controller has made.
mosquitto_starts() {
  local place=$dir/mosquitto
  sh "$example/certificates.sh" "$place" 127.0.0.1
  cp "$dir/$link/pki/ca.crt" "$place/site-ca.crt"
  sed "s/SITE/$(<"$dir/$link/pki/site")/" "$example/acl" >"$place/acl"
  mosquitto_passwd -b -c "$place/passwords" join@muster bench
  { echo 'user root'; sed "s,/etc/mosquitto/muster,$place," "$example/muster.conf"; } >"$place/muster.conf"
  ip netns exec "$name" mosquitto -c "$place/muster.conf" >"$dir/links-broker.log" 2>&1 &
  broker_pid=$!
  eventually 'mosquitto runs' grep -q ' running' "$dir/links-broker.log"
  echo bench >"$dir/password"
  cat >"$dir/links.toml" <<-END
	[link]
	url = "mqtts://127.0.0.1:8883"
	join_url = "mqtts://127.0.0.1:8884"
	ca_file = "$place/broker-ca.crt"
	join_user = "join@muster"
	join_password_file = "$dir/password"
	END
}

cat >"$dir/links.yaml" <<END
heat_template_version: 2018-08-31
parameters:
  word: {type: string}
resources:
  motd:
    type: Muster::File
    for_each: {nodes: role=web}
    properties: {path: /etc/motd, content: {get_param: word}}
END
for link in direct mosquitto; do
  : >"$dir/links.toml"
  controller
  if [ "$link" = mosquitto ]; then
    mosquitto_starts
    kill "$controller_pid"
    wait "$controller_pid" 2>/dev/null || :
    controller
    eventually 'the controller has its broker' connected
  fi
  token=$(muster node token --uses "$agents" --name 'fleet-*' --label role=web)
  ip netns exec "$name" "$release/muster-sim" fleet --agents "$agents" --token "$token" --jobs $((2 * agents)) --storm \
    --controller-pid "$controller_pid" >"$dir/links-$link.json" 2>"$dir/links-agents.log" &
  fleet_pid=$!
  eventually 'all agents are online' says 'waiting for .* jobs'
  for word in one two; do
    verb=create template=(-t "$dir/links.yaml")
    [ "$word" = one ] || verb=update template=(--existing)
    muster stack "$verb" all "${template[@]}" -P "word=$word" --wait &>"$dir/links-muster.log" ||
      { tail -n 20 "$dir/links-muster.log" >&2; exit 1; }
  done
  wait "$fleet_pid" || { tail -n 20 "$dir"/links*.log >&2; exit 1; }
  fleet_pid=''
  end
  sed "s/^{/{\"bench\":\"links\",\"link\":\"$link\",/" "$dir/links-$link.json"
done
# value LINK NAME
value() { grep -o "\"$2\":[0-9.]*" "$dir/links-$1.json" | head -n 1 | cut -d: -f2; }
awk -v jobs="$(value direct jobs_per_s)" -v jobs_over="$(value mosquitto jobs_per_s)" \
  -v online="$(value direct online_s)" -v online_over="$(value mosquitto online_s)" \
  -v storm="$(value direct storm_s)" -v storm_over="$(value mosquitto storm_s)" -v agents="$agents" 'BEGIN {
    printf "{\"bench\":\"links\",\"what\":\"direct / mosquitto\",\"agents\":%d,\"jobs_per_s\":%.2f,\"connects_per_s\":%.2f,\"storm\":%.2f}\n",
      agents, jobs / jobs_over, online_over / online, storm / storm_over }'
