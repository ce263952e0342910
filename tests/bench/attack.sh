#!/usr/bin/env bash
# What attacks cost honest agents: a line of JSON for each, with the time of an honest change when it is quiet and beside
# the attack, how long an agent takes to come back, and the controller's memory before and after.
set -euo pipefail
cd "$(dirname -- "$(readlink -f -- "$0")")/../.."
"${CARGO:-cargo}" test --quiet --release --locked -p muster-tests --test attack -- --test-threads=1 --nocapture | grep '^{'
