#!/usr/bin/env bash
# Installs a built tree into a fresh prefix, moves the prefix, and builds and runs a consumer of it
# twice: by find_package and by pkg-config.
#
#   bash tests/install/install_test.sh BUILD_DIR CXX
set -euo pipefail
build_dir=$(cd "$1" && pwd)
cxx=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "install_test: $*" >&2
  exit 1
}

cmake --install "$build_dir" --prefix "$work/first" >"$work/install.log" || {
  cat "$work/install.log" >&2
  fail "cmake --install failed"
}
# An installed tree must not remember where it was installed or built.
mv "$work/first" "$work/prefix"
prefix=$work/prefix
if grep -rlI -e "$work/first" -e "$build_dir" "$prefix"; then
  fail "the files above name the build tree or the first prefix"
fi

# Exactly the public headers are there.
source_headers=$(cd "$here/../../include" && find . -name '*.h' | sort)
installed_headers=$(cd "$prefix/include" && find . -type f | sort)
[ "$source_headers" = "$installed_headers" ] ||
  fail "installed headers differ from include/: $(diff <(echo "$source_headers") \
    <(echo "$installed_headers"))"
sed -n 's|^\./\(.*\)$|#include <\1>|p' <<<"$installed_headers" >"$work/public_headers.h"

# What the README promises is there, and every program starts from where it was installed.
for product in bin/braid_send bin/braid_recv 'lib*/libbraid_softverbs.so'; do
  compgen -G "$prefix/$product" >/dev/null || fail "$product was not installed"
done
for program in "$prefix"/bin/*; do
  "$program" --help >"$work/help.log" 2>&1 || {
    cat "$work/help.log" >&2
    fail "$(basename "$program") --help failed"
  }
done

lib_dir=$(dirname "$(find "$prefix" -name 'libbraid.a' -o -name 'libbraid.so' | head -n 1)")
export LD_LIBRARY_PATH=$lib_dir

cmake -S "$here/consumer" -B "$work/by_cmake" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$prefix" -DPUBLIC_HEADERS_DIR="$work" >"$work/cmake.log" 2>&1 &&
  cmake --build "$work/by_cmake" >>"$work/cmake.log" 2>&1 || {
  cat "$work/cmake.log" >&2
  fail "the consumer by find_package does not build"
}
"$work/by_cmake/consumer" || fail "the consumer by find_package fails"

export PKG_CONFIG_PATH=$lib_dir/pkgconfig
# Word splitting is what pkg-config's output is for.
# shellcheck disable=SC2046
"$cxx" -std=c++20 -Wall -Wextra -Werror "$here/consumer/main.cc" -I "$work" \
  $(pkg-config --cflags --libs braid) -o "$work/by_pkg_config" ||
  fail "the consumer by pkg-config does not build"
"$work/by_pkg_config" || fail "the consumer by pkg-config fails"
echo "install_test: both consumers of $(find "$lib_dir" -name 'libbraid.*' -printf '%f ')run"
