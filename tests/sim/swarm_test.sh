#!/usr/bin/env bash
# Runs the swarm over seeds that follow from the commit, so that each commit is tried on others.
#
#   bash tests/sim/swarm_test.sh BRAID_SIM SEEDS
set -euo pipefail
program=$1
seeds=$2
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# A tree without git, as a release has, starts at 1.
commit=$(git -c safe.directory="$top" -C "$top" rev-parse --short=8 HEAD 2>/dev/null || echo 1)
"$program" swarm --seeds "$seeds" --start $((16#${commit:0:8}))
