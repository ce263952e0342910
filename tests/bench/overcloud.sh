#!/usr/bin/env bash
# Overclouds of TripleO for ten servers that are installed: a real Heat from PyPI makes each, and then Muster. Heat runs in its
# fastest form: one process, with its database in memory, and servers that have answered before it asks (tests/oracle/engine.py).
# Muster is as users know it: its command line, a controller with a database on disk, and ten agents over TLS. Needs root, and
# Python with venv; where PyPI cannot be reached Muster is measured alone, and a line says so.
# Usage: tests/bench/overcloud.sh RELEASE-DIRECTORY DIRECTORY
set -euo pipefail
release=$1 dir=$2
trees=(wallaby 2023)
overclouds=$(readlink -f tests/overcloud)
# shellcheck source=tests/bench/common.bash
. "$(dirname -- "$0")/common.bash"
patience=60

if timeout 600 python3 -m venv "$dir/venv" &>"$dir/pip.log" &&
  timeout 900 "$dir/venv/bin/pip" install --disable-pip-version-check openstack-heat==27.0.1 python-heatclient==5.3.0 yaql==2.0.1 \
    &>>"$dir/pip.log"; then
  for tree in "${trees[@]}"; do
    timeout 1200 "$dir/venv/bin/python" "$overclouds/record" --measure "$tree" 2>"$dir/heat.log" || fail "Heat cannot make $tree"
  done
else
  echo '{"bench":"overcloud_heat","left_out":"Heat cannot be installed from PyPI"}'
  tail -n 5 "$dir/pip.log" >&2
fi

# agents ROLE NUMBER: servers as the overcloud calls them.
agents() {
  local token
  token=$(muster node token --uses "$2" --name "overcloud-$1-*")
  background "$1" "$release/muster-sim" fleet --agents "$2" --prefix "overcloud-$1-" --token "$token" \
    --connect mqtts://127.0.0.1:8883 --stay
}
all_are_there() { [ "$(muster node list -o json | grep -o '"state": *"online"' | wc -l)" = 10 ]; }

make_namespace overcloud
cat >"$dir/plan.yaml" <<END
heat_template_version: wallaby
resources:
  net: {type: OS::Neutron::Net, properties: {name: ctlplane}}
  subnet:
    type: OS::Neutron::Subnet
    properties: {network: {get_resource: net}, name: ctlplane-subnet, cidr: 192.0.2.0/24, gateway_ip: 192.0.2.254}
END
for tree in "${trees[@]}"; do
  deployed=environments/deployed-server-environment.yaml
  [ "$tree" != 2023 ] || deployed=environments/deployed-server-deployed-neutron-ports.yaml
  tar -xJf "$overclouds/$tree.tar.xz" -C "$dir"
  root=$dir/rendered-$tree
  controller 127.0.0.1:8883 "$dir/data-$tree"
  controller_answers
  agents controller 3
  agents novacompute 4
  agents blockstorage 1
  agents objectstorage 1
  agents cephstorage 1
  eventually 'ten servers are online' all_are_there
  muster stack create plan -t "$dir/plan.yaml" --wait &>"$dir/muster.log" || fail 'the address plan is not made'
  environments=()
  for file in "$root/overcloud-resource-registry-puppet.yaml" "$root/$deployed" "$overclouds/../../examples/tripleo/no-cloud.yaml" \
    "$overclouds/site.yaml" "$overclouds/scale.yaml"; do
    environments+=(-e "$file")
  done
  began=${EPOCHREALTIME/./}
  muster stack create overcloud -t "$root/overcloud.yaml" "${environments[@]}" --wait &>"$dir/muster.log" ||
    fail "Muster cannot make $tree"
  ended=${EPOCHREALTIME/./}
  printf '{"bench":"overcloud","tree":"%s","seconds":%s,"rss_max_bytes":%d,"fsync_s":%s}\n' \
    "$tree" "$(calculate "($ended - $began) / 1000000")" "$(($(field "/proc/$controller_pid/status" VmHWM) * 1024))" "$(fsync_s)"
  # The last one is the controller.
  for each in "${pids[@]}"; do
    stop "$each"
  done
done
