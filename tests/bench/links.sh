#!/usr/bin/env bash
# The direct link and Mosquitto, one after the other, with the same agents and jobs in the same namespace: all agents connect,
# and connect again with whole handshakes, one file for each is created and updated, all connections are dropped at once. Durable
# commits on both. The last line has the ratios: of jobs and connects per second more is better for the direct link, of the storm
# less. Connects are those of the second time: at the first one the simulated agents touch new memory, and the system's work to
# clear it would be measured on both sides. Agents come from 16 addresses, for one address may only be let in so fast, and servers
# have one each.
# Needs root, mosquitto and openssl. Usage: tests/bench/links.sh RELEASE-DIRECTORY DIRECTORY [AGENTS]
set -euo pipefail
release=$1 dir=$2 agents=${3:-2000}
here=$(dirname -- "$(readlink -f -- "$0")")
# shellcheck source=tests/bench/common.bash
. "$here/common.bash"
example=$here/../../examples/mosquitto
patience=600 addresses=16
open_files "$agents"

says() { grep -q "$1" "$dir/agents.log"; }
has_broker() { muster status -o json | grep -q '"link_problem": *null'; }
link_controller() {
  local listen=0.0.0.0:8883
  [ "$link" = direct ] || listen=127.0.0.1:9883
  controller "$listen" "$dir/$link"
  controller_answers
}

# Mosquitto as docs/brokers.md sets it up, for the site that the controller has made.
mosquitto_starts() {
  local place=$dir/mosquitto
  sh "$example/certificates.sh" "$place" 127.0.0.1 "${hosts[@]}"
  cp "$dir/$link/pki/ca.crt" "$place/site-ca.crt"
  sed "s/SITE/$(<"$dir/$link/pki/site")/" "$example/acl" >"$place/acl"
  mosquitto_passwd -b -c "$place/passwords" join@muster bench
  { echo 'user root'; sed "s,/etc/mosquitto/muster,$place," "$example/muster.conf"; } >"$place/muster.conf"
  background broker mosquitto -c "$place/muster.conf"
  eventually 'mosquitto runs' grep -q ' running' "$dir/broker.log"
  echo bench >"$dir/password"
  cat >"$dir/controller.toml" <<-END
	[link]
	url = "mqtts://127.0.0.1:8883"
	join_url = "mqtts://127.0.0.1:8884"
	ca_file = "$place/broker-ca.crt"
	join_user = "join@muster"
	join_password_file = "$dir/password"
	END
}

make_namespace links
make_addresses "$addresses"
hosts=() connect=()
for n in $(seq "$addresses"); do
  hosts+=("127.$n.0.1")
  connect+=(--connect "mqtts://127.$n.0.1:8883")
done
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
printf '[controller]\naddresses = ["127.0.0.1:8883"]\n' >"$dir/controller.toml"
for link in direct mosquitto; do
  link_controller
  if [ "$link" = mosquitto ]; then
    mosquitto_starts
    stop "$controller_pid"
    link_controller
    eventually 'the controller has its broker' has_broker
  fi
  token=$(muster node token --uses "$agents" --name 'fleet-*' --label role=web)
  # What the fleet before has said would be taken for this one's.
  : >"$dir/agents.log"
  "${inside[@]}" "$release/muster-sim" fleet --agents "$agents" --token "$token" "${connect[@]}" --again --jobs $((2 * agents)) \
    --storm --controller-pid "$controller_pid" >"$dir/$link.json" 2>"$dir/agents.log" &
  needed=$!
  pids=("$needed" "${pids[@]}")
  eventually 'all agents are online' says 'waiting for .* jobs'
  for word in one two; do
    verb=create template=(-t "$dir/links.yaml")
    [ "$word" = one ] || verb=update template=(--existing)
    muster stack "$verb" all "${template[@]}" -P "word=$word" --wait &>"$dir/muster.log" || fail "the $verb failed"
  done
  wait "$needed" || fail 'the fleet failed'
  needed=''
  stop "$controller_pid"
  sed "s/^{/{\"bench\":\"links\",\"link\":\"$link\",/" "$dir/$link.json"
done
# value LINK NAME
value() { grep -o "\"$2\":[0-9.]*" "$dir/$1.json" | head -n 1 | cut -d: -f2; }
printf '{"bench":"links","what":"direct / mosquitto","agents":%d,"jobs_per_s":%s,"connects_per_s":%s,"storm":%s}\n' "$agents" \
  "$(calculate "$(value direct jobs_per_s) / $(value mosquitto jobs_per_s)" 2)" \
  "$(calculate "$(value mosquitto again_s) / $(value direct again_s)" 2)" \
  "$(calculate "$(value direct storm_s) / $(value mosquitto storm_s)" 2)"
