#!/usr/bin/env bash
# The kernel's Soft-RoCE against the soft device, in a virtual machine of its own.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: bash tests/rxe/run.sh [--build DIR] [--only PART]... [--help]

Boots Debian's kernel in QEMU (emulated: no KVM, no root, no kernel module on this machine is
needed), with this machine's files read-only, and runs there:

  kernel      the conformance suites, the kernel's rdma_rxe with itself, through rdma-core
  wire        the conformance suites between rdma_rxe and the soft device over a veth pair, each
              side as requester once; the soft device verifies the ICRC of each packet
  loss        data, atomics and ordering the same way while netem drops packets both ways
  perftest    Debian's ib_*_bw between rdma_rxe and the preloaded soft device, both directions
  bandwidth   ib_write_bw at 64 KiB: rdma_rxe with itself and the soft device with itself

  --build DIR  build tree with the test programs; default: build, built first when it is missing
  --only PART  only this part; may be repeated
  --help       this text

Exit status: 0 all parts passed, 1 a failure (its output is printed), 2 wrong arguments, 77 QEMU
or the kernel package cannot be had here (the reason is printed).
TEXT
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build parts=()
while [ $# -gt 0 ]; do
  case "$1" in
    --build | --only)
      [ $# -ge 2 ] && [ -n "$2" ] || { echo "tests/rxe/run.sh: $1 needs a value" >&2; exit 2; }
      if [ "$1" = --build ]; then build=$(realpath -m "$2"); else parts+=("$2"); fi
      shift 2
      ;;
    --help | -h) usage; exit 0 ;;
    *) echo "tests/rxe/run.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=(kernel wire loss perftest bandwidth)
for part in "${parts[@]}"; do
  case "$part" in
    kernel | wire | loss | perftest | bandwidth) ;;
    *) echo "tests/rxe/run.sh: no part is called '$part' (see --help)" >&2; exit 2 ;;
  esac
done

skip() { echo "tests/rxe/run.sh: skipped: $*"; exit 77; }

source "$root/cmake/packages.sh"
# Under ctest nothing is installed: what is missing is a reason to skip.
if [ -n "${BRAID_RXE_NO_INSTALL:-}" ]; then
  missing=$(braid_missing_packages guest | tr '\n' ' ')
  [ -z "$missing" ] || skip "not installed: $missing(bash tests/rxe/run.sh installs them)"
else
  braid_require_packages build test guest
fi

programs=(verbs_conformance_kernel rxe_wire_conformance)
for program in "${programs[@]}"; do
  [ -x "$build/tests/$program" ] && [ -e "$build/lib/libbraid_softverbs.so" ] && continue
  braid_configure "$build" -DBRAID_BUILD_TESTS=ON
  cmake --build "$build" --target "${programs[@]}" braid_softverbs_preload
done

# --- The guest's kernel, fetched once ---------------------------------------------------------

cache=$root/build/rxe-kernel
mkdir -p "$cache"
# Only apt's word for the newest kernel; the package is not installed here.
fetch_kernel() {
  local package
  package=$(apt-cache depends linux-image-amd64 2>/dev/null |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  [ -n "$package" ] || skip "apt knows no linux-image-amd64 (apt-get update)"
  rm -rf "$cache/new"
  mkdir "$cache/new"
  (cd "$cache/new" && apt-get -q download "$package" >"$cache/download.log" 2>&1) ||
    skip "the package $package cannot be downloaded: $(tail -n 1 "$cache/download.log")"
  dpkg -x "$cache/new/"*.deb "$cache/new"
  rm "$cache/new/"*.deb
  mv "$cache/new" "$cache/unpacked"
}
[ -d "$cache/unpacked" ] || fetch_kernel
kernel=$(echo "$cache"/unpacked/boot/vmlinuz-*)
version=${kernel##*/vmlinuz-}

# --- The initial file system ------------------------------------------------------------------

work=$(mktemp -d)
qemu_pid=
cleanup() {
  [ -z "$qemu_pid" ] || kill "$qemu_pid" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

make_initramfs() {
  local initramfs=$work/initramfs from=$cache/unpacked/lib/modules/$version tree
  local to=$initramfs/lib/modules/$version
  mkdir -p "$initramfs"/{bin,sbin,dev,proc,sys,out,host,mnt} "$to/kernel"
  cp "$(command -v busybox)" "$initramfs/bin/busybox"
  for tree in bin/sh sbin/modprobe; do ln -s /bin/busybox "$initramfs/$tree"; done
  for tree in drivers/infiniband drivers/virtio drivers/net/veth.ko \
    net fs/9p fs/netfs fs/fscache fs/configfs lib crypto arch/x86/crypto; do
    [ -e "$from/kernel/$tree" ] || continue
    mkdir -p "$to/kernel/$(dirname "$tree")"
    cp -r "$from/kernel/$tree" "$to/kernel/$tree"
  done
  cp "$from"/modules.{order,builtin} "$to"
  cp "$from"/modules.builtin.modinfo "$to" 2>/dev/null || true
  /sbin/depmod -b "$initramfs" "$version"
  install -m 755 "$here/guest_init.sh" "$initramfs/init"
  (cd "$initramfs" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/initramfs.gz"
}
make_initramfs

# --- The run ----------------------------------------------------------------------------------

out=$work/out
mkdir "$out"
cat >"$out/arguments" <<TEXT
ROOT='$root'
BUILD='$build'
PARTS='${parts[*]}'
TEXT

# A guest that hangs must not hang the run; the usual run takes a few minutes.
limit_s=840
begin=$SECONDS
timeout --foreground "$limit_s" qemu-system-x86_64 \
  -accel tcg,thread=multi -cpu max -smp 2 -m 2048 -nic none -nographic -no-reboot \
  -kernel "$kernel" -initrd "$work/initramfs.gz" \
  -append "console=ttyS0 quiet panic=-1" \
  -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
  -virtfs "local,path=$out,mount_tag=out,security_model=none,multidevs=remap" \
  >"$work/console" 2>&1 </dev/null &
qemu_pid=$!
status=0
wait "$qemu_pid" || status=$?
qemu_pid=

mkdir -p "$root/build/rxe-results"
cp -r "$out"/. "$work/console" "$root/build/rxe-results"
cat "$out/summary" 2>/dev/null || true
if [ "$status" -eq 124 ]; then
  echo "rxe: the guest did not end within $limit_s s; its console ends with:" >&2
  tail -n 40 "$work/console" >&2
  exit 1
fi
verdict=$(cat "$out/status" 2>/dev/null || echo none)
if [ "$verdict" != 0 ]; then
  echo "rxe: failed (guest status: $verdict, QEMU's: $status)" >&2
  if [ "$verdict" = none ]; then
    tail -n 40 "$work/console" >&2
  else
    cat "$out/failures" >&2
  fi
  exit 1
fi
echo "rxe: all parts passed on kernel $version in $((SECONDS - begin)) s"
