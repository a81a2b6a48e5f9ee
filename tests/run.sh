#!/usr/bin/env bash
# Builds everything into build/ and runs the tests. Installs missing Debian packages first.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: bash tests/run.sh [--filter REGEX] [--label LABEL] [--repeat N] [--help]

Installs missing packages (as root or with sudo), configures, builds into build/ and runs all
tests with ctest. Exit status: 0 when every test passed.

  --filter REGEX  only tests whose name matches (ctest -R)
  --label LABEL   only tests with a label that matches (ctest -L); docs/testing.md lists them
  --repeat N      run each test up to N times, until it fails
  --help          this text

Environment: BRAID_JOBS = parallel jobs, default: all processors.
TEXT
}

select_tests=()
while [ $# -gt 0 ]; do
  case "$1" in
    --filter | --label | --repeat)
      if [ $# -lt 2 ] || [ -z "$2" ]; then
        echo "tests/run.sh: $1 needs a value (see --help)" >&2
        exit 2
      fi
      case "$1" in
        --filter) select_tests+=(-R "$2") ;;
        --label) select_tests+=(-L "$2") ;;
        --repeat) select_tests+=(--repeat "until-fail:$2") ;;
      esac
      shift 2
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      echo "tests/run.sh: unknown argument '$1' (see --help)" >&2
      exit 2
      ;;
  esac
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/packages.sh
jobs=${BRAID_JOBS:-$(nproc)}

braid_require_packages build test bench
braid_configure build -DBRAID_BUILD_TESTS=ON -DBRAID_BUILD_BENCHMARKS=ON -DBRAID_BUILD_EXAMPLES=ON
cmake --build build -j "$jobs"
# A selection that matches nothing is a mistake, not a success.
exec ctest --test-dir build --output-on-failure --no-tests=error -j "$jobs" "${select_tests[@]}"
