#!/usr/bin/env bash
# The one entry for every benchmark: builds what it needs and runs it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOF'
Usage: bash benchmarks/run.sh NAME [--json] [option ...]

NAME
  softverbs   the user-space RoCEv2 device: goodput and latency next to bare UDP, memory per QP,
              cost of the engine without I/O
  connect     channels to another process: time of one with 16 lanes and of 256 at once, memory
  datapath    what a segment costs beyond the verbs that carry it: nanoseconds and instructions
  sim         the simulated fabric: packets per second on one core, memory per idle host

--json prints one JSON object per figure and line. Further options go to the benchmark program;
`bash benchmarks/run.sh NAME --help` lists them.
Exit status: 0 every goal met, 1 a goal missed, 2 something could not be measured or built.
EOF
}

case "${1:-}" in
  softverbs) program=softverbs_bench ;;
  connect) program=connect_bench ;;
  datapath) program=datapath_bench ;;
  sim) program=sim_bench ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac
shift

source cmake/packages.sh
braid_require_packages build bench >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { braid_configure build -DBRAID_BUILD_BENCHMARKS=ON &&
       cmake --build build --target "$program"; } >"$log" 2>&1; then
  tail -n 30 "$log" >&2
  exit 2
fi
"build/bin/$program" "$@"
