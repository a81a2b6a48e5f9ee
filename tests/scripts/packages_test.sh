#!/usr/bin/env bash
# Tests cmake/packages.sh and the argument handling of the entry scripts against a system that is
# played by small programs: dpkg-query, apt-get, apt-cache, id and sudo.
set -uo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bin=$work/bin
mkdir "$bin"
failures=0

fake() { # fake NAME: a program whose body is standard input
  { echo '#!/bin/bash' && cat; } >"$bin/$1"
  chmod +x "$bin/$1"
}
# State of the played system, one package a line.
export INSTALLED=$work/installed KNOWN=$work/known CALLS=$work/calls
fake dpkg-query <<'SH'
for package in "${@:3}"; do
  grep -qx "$package" "$INSTALLED" && echo "$package installed"
  grep -qx "removed:$package" "$INSTALLED" && echo "$package config-files"
done
exit 1
SH
fake apt-cache <<'SH'
for package in "${@:3}"; do grep -qx "$package" "$KNOWN" || exit 100; done
SH
fake apt-get <<'SH'
echo "apt-get $* frontend=${DEBIAN_FRONTEND:-}" >>"$CALLS"
case " $* " in
  *" update "*) printf '%s\n' "$NEWLY_KNOWN" >>"$KNOWN" ;;
  *" install "*)
    for package in "$@"; do
      case "$package" in -* | install) continue ;; esac
      grep -qx "$package" "$KNOWN" || exit 100
      echo "$package" >>"$INSTALLED"
    done
    ;;
esac
SH
fake id <<'SH'
echo "${PLAYED_UID:-0}"
SH
fake sudo <<'SH'
[ -n "${SUDO_WORKS:-}" ] || exit 1
[ "$1" = -n ] && shift
echo "sudo" >>"$CALLS"
exec "$@"
SH

# play INSTALLED KNOWN: sets the system; require LISTS...: runs the function in it.
play() {
  printf '%s\n' $1 >"$INSTALLED"
  printf '%s\n' $2 >"$KNOWN"
  : >"$CALLS"
}
require() {
  PATH=$bin:$PATH bash -c "
    source '$top/cmake/packages.sh'
    BRAID_PACKAGES_BUILD=(alpha beta) BRAID_PACKAGES_TEST=(gamma)
    braid_require_packages $*
    echo went on" </dev/null >"$work/out" 2>&1
  status=$?
}

# check TEXT CONDITION...: the condition is a command.
check() {
  local text=$1
  shift
  if "$@"; then return; fi
  echo "FAILED: $text: $*"
  echo "  output: $(cat "$work/out")"
  echo "  calls:  $(cat "$CALLS")"
  failures=$((failures + 1))
}
equal() { [ "$1" = "$2" ]; }
calls() { grep -c "$1" "$CALLS"; }
says() { grep -qF -- "$1" "$work/out"; }

export NEWLY_KNOWN=
play "alpha beta" ""
require build
check "nothing missing: goes on" says "went on"
check "nothing missing: apt is not called" equal "$(wc -l <"$CALLS")" 0
check "nothing missing: silent" equal "$(cat "$work/out")" "went on"

require build test
check "another list counts only when it is asked for" says "gamma"

play "alpha" "beta"
require build
check "root: installs and goes on" says "went on"
check "root: says what" says "installing missing packages: beta"
check "root: installs only what is missing" equal "$(calls ' alpha')" 0
check "root: asks no questions" equal "$(calls 'frontend=noninteractive')" 1
check "root: known packages need no update" equal "$(calls update)" 0

play "alpha removed:beta" "beta"
require build
check "a package that was removed counts as missing" equal "$(calls ' beta')" 1

NEWLY_KNOWN=beta
play "alpha" ""
require build
check "unknown package: updates the lists first, then installs" equal "$(
  sed 's/.* \(update\|install\) .*/\1/' "$CALLS" | tr '\n' ' ')" "update install "
check "unknown package: goes on" says "went on"

NEWLY_KNOWN=
play "alpha" ""
require build
check "package that does not exist: exit 1" equal "$status" 1
check "package that does not exist: named" says "could not install: beta"

PLAYED_UID=1000 && export PLAYED_UID
play "" "alpha beta"
require build
check "no root: exit 1" equal "$status" 1
check "no root: the exact command" \
  says "apt-get update && apt-get install -y --no-install-recommends alpha beta"
check "no root: installs nothing" equal "$(wc -l <"$CALLS")" 0
SUDO_WORKS=1 && export SUDO_WORKS
require build
check "sudo: goes on" says "went on"
check "sudo: is used" equal "$(calls '^sudo')" 2
unset PLAYED_UID SUDO_WORKS

play "" ""
require nonsense
check "unknown list: exit 1" equal "$status" 1

for script in tests/run.sh .ci/run; do
  bash "$top/$script" --no-such-argument >"$work/out" 2>&1
  check "$script refuses what it does not know" equal $? 2
  bash "$top/$script" --help >"$work/out" 2>&1
  check "$script --help" equal $? 0
done
bash "$top/tests/run.sh" --filter >"$work/out" 2>&1
check "--filter without a value" equal $? 2

if [ "$failures" -ne 0 ]; then
  echo "packages_test: $failures checks failed"
  exit 1
fi
echo "packages_test: all checks passed"
