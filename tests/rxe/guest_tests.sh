#!/usr/bin/env bash
# Runs inside the guest, in the machine's own files: sets up rdma_rxe and a veth pair and runs the
# parts that run.sh names. Usage: guest_tests.sh OUT_DIR; writes summary and failures there.
set -u
out=$1
source "$out/arguments"
here=$ROOT/tests/rxe
: >"$out/summary"
: >"$out/failures"
preload=$BUILD/lib/libbraid_softverbs.so
kernel_ip=10.77.0.1 soft_ip=10.77.0.2
failed=0

say() { echo "$*" | tee -a "$out/summary"; }

# check NAME LOG COMMAND...: runs it; a failure keeps the end of its output.
check() {
  local name=$1 log=$out/$2 begin=$SECONDS status
  shift 2
  "$@" >"$log" 2>&1 </dev/null
  status=$?
  if [ "$status" -eq 0 ]; then
    say "rxe: $name: ok, $((SECONDS - begin)) s"
    return 0
  fi
  failed=1
  say "rxe: $name: FAILED (status $status), $((SECONDS - begin)) s"
  { echo "--- $name"; grep -v '^\[ *\(RUN\|OK\|-*\) *\]' "$log" | tail -n 150; } >>"$out/failures"
  return 1
}

set_up() {
  ulimit -l unlimited
  ip link set lo up &&
    ip netns add soft &&
    ip link add v0 mtu 4500 type veth peer name v1 mtu 4500 &&
    ip link set v1 netns soft &&
    ip addr add "$kernel_ip/24" dev v0 && ip link set v0 up &&
    ip -n soft addr add "$soft_ip/24" dev v1 && ip -n soft link set v1 up &&
    ip -n soft link set lo up &&
    rdma link add rxe0 type rxe netdev v0
}

# Only the network changes: below `ip netns exec` /sys would lack the devices.
in_soft() { nsenter --net=/run/netns/soft env BRAID_SOFT_ADDRESS="$soft_ip" "$@"; }

# excluded FILE: the negative part of a GoogleTest filter. Lines are "Case  # reason".
excluded() {
  sed -e 's/ *#.*//' -e '/^$/d' "$1" | paste -sd:
}

part_kernel() {
  check "conformance, rdma_rxe with itself" kernel.log \
    "$BUILD/tests/verbs_conformance_kernel" --gtest_brief=0 \
    --gtest_filter="-$(excluded "$here/deviations_kernel.txt")"
}
part_wire() {
  check "conformance, soft device and rdma_rxe" wire.log in_soft \
    "$BUILD/tests/rxe_wire_conformance" --gtest_filter="-$(excluded "$here/deviations_wire.txt")"
}

part_loss() {
  local here_dropped there_dropped cases="*/DataTransfer.*:*/Atomics.*:*/Ordering.*"
  tc qdisc add dev v0 root netem loss 1% && tc -n soft qdisc add dev v1 root netem loss 1%
  check "data, atomics and order with 1 % loss each way" loss.log in_soft \
    "$BUILD/tests/rxe_wire_conformance" \
    --gtest_filter="$cases-$(excluded "$here/deviations_wire.txt")"
  here_dropped=$(tc -s qdisc show dev v0 | sed -n 's/.*dropped \([0-9]*\).*/\1/p' | head -n 1)
  there_dropped=$(tc -n soft -s qdisc show dev v1 | sed -n 's/.*dropped \([0-9]*\).*/\1/p' |
    head -n 1)
  say "rxe: netem dropped $here_dropped packets of the kernel's and $there_dropped of the other's"
  # Without a loss on both sides this part would show nothing.
  check "packets were lost on both sides" lost.log \
    test "${here_dropped:-0}" -gt 0 -a "${there_dropped:-0}" -gt 0
  tc qdisc del dev v0 root
  tc -n soft qdisc del dev v1 root
}

on_kernel() { env "$@" -d rxe0 -x 1; }
on_soft() { in_soft LD_PRELOAD="$preload" BRAID_SOFT_RAW_RECEIVE=1 "$@"; }

# wait_for_listener PID PORT PREFIX...: until the server listens, up to 60 s.
wait_for_listener() {
  local pid=$1 port=$2 tries=600
  shift 2
  until "$@" ss -Hltn "sport = :$port" | grep -q .; do
    kill -0 "$pid" 2>/dev/null && [ "$((tries -= 1))" -gt 0 ] || return 1
    sleep 0.1
  done
}

# perftest SERVER CLIENT ADDRESS PREFIX PROGRAM OPTIONS...: both ends must end well.
perftest() {
  local server=$1 client=$2 address=$3 prefix=$4 pid status=0
  shift 4
  timeout 120 bash -c "$(declare -f in_soft on_kernel on_soft); soft_ip=$soft_ip preload=$preload
    $server \"\$@\"" server "$@" -F --report_gbits -p 18515 &
  pid=$!
  wait_for_listener "$pid" 18515 $prefix || { kill "$pid"; wait "$pid"; return 1; }
  timeout 120 bash -c "$(declare -f in_soft on_kernel on_soft); soft_ip=$soft_ip preload=$preload
    $client \"\$@\"" client "$@" -F --report_gbits -p 18515 "$address" || status=1
  wait "$pid" || status=1
  return "$status"
}

part_perftest() {
  local program in_ns="nsenter --net=/run/netns/soft"
  for program in ib_write_bw ib_read_bw ib_send_bw; do
    check "$program, soft device to rdma_rxe" "$program-to-kernel.log" perftest \
      on_kernel on_soft "$kernel_ip" "" "$program" -q 2 -s 65536 -n 100
    check "$program, rdma_rxe to soft device" "$program-to-soft.log" perftest \
      on_soft on_kernel "$soft_ip" "$in_ns" "$program" -q 2 -s 65536 -n 100
  done
}

# The average of perftest's report, in Gbit/s.
rate_of() { awk '$1 == 65536 { print $4; exit }' "$1"; }

part_bandwidth() {
  local in_ns="nsenter --net=/run/netns/soft" round kernel soft ratio
  # The loopback network: a soft device takes a free address of it.
  on_soft() { nsenter --net=/run/netns/soft env LD_PRELOAD="$preload" "$@"; }
  for round in 1 2 3; do
    check "ib_write_bw, rdma_rxe with itself, round $round" "bw-kernel-$round.log" perftest \
      on_kernel on_kernel "$kernel_ip" "" ib_write_bw -s 65536 -n 500 || return
    check "ib_write_bw, soft device with itself, round $round" "bw-soft-$round.log" perftest \
      on_soft on_soft 127.0.0.1 "$in_ns" ib_write_bw -s 65536 -n 500 || return
    kernel=$(rate_of "$out/bw-kernel-$round.log") soft=$(rate_of "$out/bw-soft-$round.log")
    ratio=$(awk -v a="$soft" -v b="$kernel" 'BEGIN { printf "%.2f", a / b }')
    say "rxe: ib_write_bw 64 KiB, round $round: rdma_rxe $kernel Gbit/s," \
      "soft device $soft Gbit/s, ratio $ratio"
  done
}

main() {
  local part
  check "setup of veth, namespace and rxe0" setup.log set_up || return 1
  for part in $PARTS; do "part_$part"; done
  return "$failed"
}
main
