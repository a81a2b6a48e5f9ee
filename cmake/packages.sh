# Debian packages that Braid needs, and how they get installed. Sourced by the entry scripts
# (tests/run.sh, examples/demo.sh, benchmarks/run.sh, .ci/run); needs bash and nothing else.
#
#   source cmake/packages.sh
#   braid_require_packages build test     # installs what is missing, or says how and exits 1
#   braid_configure build -DBRAID_BUILD_TESTS=ON
#
# The names are those of Debian 12. A list holds only what its purpose adds.

# What compiling the library and the programs takes.
BRAID_PACKAGES_BUILD=(
  g++ cmake ninja-build ccache pkg-config
  libibverbs-dev librdmacm-dev libspdlog-dev libisal-dev libcli11-dev nlohmann-json3-dev libssl-dev
)
# What the tests add: frameworks, and the foreign programs that are run against the soft device.
BRAID_PACKAGES_TEST=(
  libgtest-dev libgmock-dev python3 git
  ibverbs-utils perftest tshark iproute2 procps
)
# What the benchmarks add.
BRAID_PACKAGES_BENCH=(
  libbenchmark-dev python3 valgrind
)
# What the gates of .ci/run add: the second compiler, the formatter, the linter, the sanitizers.
BRAID_PACKAGES_GATES=(
  clang clang-format clang-tidy libclang-rt-14-dev llvm git
)
# What the tests against the kernel's Soft-RoCE add: a virtual machine, and what its start takes.
BRAID_PACKAGES_GUEST=(
  qemu-system-x86 busybox-static kmod cpio iproute2
)

# braid_package_list LIST...: prints the packages of the lists (build, test, bench, gates, guest).
braid_package_list() {
  local list
  for list in "$@"; do
    case "$list" in
      build) printf '%s\n' "${BRAID_PACKAGES_BUILD[@]}" ;;
      test) printf '%s\n' "${BRAID_PACKAGES_TEST[@]}" ;;
      bench) printf '%s\n' "${BRAID_PACKAGES_BENCH[@]}" ;;
      gates) printf '%s\n' "${BRAID_PACKAGES_GATES[@]}" ;;
      guest) printf '%s\n' "${BRAID_PACKAGES_GUEST[@]}" ;;
      *)
        echo "packages.sh: no package list is called '$list' (build, test, bench, gates, guest)" >&2
        return 1
        ;;
    esac
  done | sort -u
  return "${PIPESTATUS[0]}"
}

# braid_missing_packages LIST...: prints those that are not installed. Asks dpkg only, once.
braid_missing_packages() {
  local wanted installed
  wanted=$(braid_package_list "$@") || return 1
  # dpkg-query fails when it knows nothing of a name; such a name is simply not in its output.
  # shellcheck disable=SC2086
  installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' $wanted 2>/dev/null |
    sed -n 's/ installed$//p' | sort -u)
  comm -23 <(printf '%s\n' "$wanted") <(printf '%s\n' "$installed")
}

# braid_require_packages LIST...: after it, everything in the lists is installed, or the shell has
# exited with 1 and a sentence that says what to do.
braid_require_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "braid: this is not a Debian system; install by hand what these Debian 12 packages" \
      "hold, and build with cmake: $(braid_package_list "$@" | tr '\n' ' ')" >&2
    exit 1
  fi
  local missing
  missing=$(braid_missing_packages "$@") || exit 1
  [ -n "$missing" ] || return 0
  missing=$(printf '%s' "$missing" | tr '\n' ' ')
  local -a as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    # Asking for a password would hang a run that has no terminal.
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      echo "braid: missing packages: $missing" >&2
      echo "braid: no permission to install them; run this as root, then start again:" >&2
      echo "  apt-get update && apt-get install -y --no-install-recommends $missing" >&2
      exit 1
    fi
  fi
  echo "braid: installing missing packages: $missing"
  if ! _braid_install "$missing" "${as_root[@]}"; then
    echo "braid: apt-get could not install: $missing" >&2
    exit 1
  fi
  missing=$(braid_missing_packages "$@")
  if [ -n "$missing" ]; then
    echo "braid: still missing after the installation: $(tr '\n' ' ' <<<"$missing")" >&2
    exit 1
  fi
}

# _braid_install "PACKAGES" [SUDO]: refreshes apt's lists only when they do not know a package, or
# when they turn out to be stale.
_braid_install() {
  local packages=$1
  shift
  local -a apt=("$@" env DEBIAN_FRONTEND=noninteractive apt-get -q)
  local -a install=("${apt[@]}" install -y --no-install-recommends)
  # shellcheck disable=SC2086
  if apt-cache show --no-all-versions $packages >/dev/null 2>&1; then
    "${install[@]}" $packages </dev/null && return 0
    echo "braid: trying again with fresh package lists"
  fi
  # shellcheck disable=SC2086
  "${apt[@]}" update </dev/null && "${install[@]}" $packages </dev/null
}

# braid_configure BUILD_DIR -DNAME=VALUE...: configures the source tree around this file into
# BUILD_DIR, only when there is no configuration yet or one of the values differs in it.
braid_configure() {
  local build_dir=$1 setting name value wanted_all=1
  shift
  local source_dir
  source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  for setting in "$@"; do
    name=${setting%%=*} value=${setting#*=}
    name=${name#-D}
    grep -qs "^${name%%:*}:[A-Z]*=${value}\$" "$build_dir/CMakeCache.txt" || wanted_all=0
  done
  if [ "$wanted_all" = 1 ] && [ -f "$build_dir/build.ninja" ]; then
    return 0
  fi
  cmake -S "$source_dir" -B "$build_dir" -G Ninja -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "$@"
}
