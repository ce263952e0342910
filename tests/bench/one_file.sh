#!/usr/bin/env bash
# An update of one file on one idle node, with the database that MUSTER_STORE__URL names, or the one in the data directory.
# Usage: tests/bench/one_file.sh RELEASE-DIRECTORY AGENT DIRECTORY
set -euo pipefail
release=$1 agent=$2 dir=$3
# shellcheck source=tests/bench/common.bash
. "$(dirname -- "$0")/common.bash"

one_server_starts
one_file_updates
