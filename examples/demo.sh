#!/usr/bin/env bash
# Braid's main job in one command: installs what is missing, builds, and sends a file of 256 MiB
# between two processes over four lanes of the user-space RoCEv2 device, one of them slowed.
# The last line begins with "demo: OK"; anything else exits non-zero.
#
#   bash examples/demo.sh            BRAID_DEMO_MIB=1024 bash examples/demo.sh
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build  # relative: what is printed then reads the same everywhere
mib=${BRAID_DEMO_MIB:-256}
ports=50001,50002,50003,50004
slow_port=50004
slow_rate=80Mbit

fail() {
  echo "demo: FAILED: $*" >&2
  exit 1
}

# shellcheck source=cmake/packages.sh
source cmake/packages.sh
braid_require_packages build
# A build directory that the tests have configured serves as well, and stays as it is.
if [ ! -f "$build/build.ninja" ]; then
  braid_configure "$build" -DBRAID_BUILD_TESTS=OFF -DBRAID_BUILD_BENCHMARKS=OFF
fi
cmake --build "$build" --target braid_send braid_recv

work=$(mktemp -d "$build/demo.XXXXXX")
receiver=
cleanup() {
  if [ -n "$receiver" ] && kill -0 "$receiver" 2>/dev/null; then kill "$receiver"; fi
  rm -rf "$work"
}
trap cleanup EXIT

echo "demo: making a file of $mib MiB"
head -c "${mib}M" /dev/urandom >"$work/sent"
want=$(sha256sum <"$work/sent" | cut -d' ' -f1)

"$build/bin/braid_recv" --listen 127.0.0.1:0 -o "$work/received" --wait 60 \
  >"$work/receiver.out" 2>"$work/receiver.err" &
receiver=$!
port=
for _ in $(seq 200); do
  port=$(sed -n 's/^braid_recv: listening on .* port \([0-9]*\) .*/\1/p' "$work/receiver.err")
  [ -z "$port" ] || break
  kill -0 "$receiver" 2>/dev/null || fail "the receiver ended: $(cat "$work/receiver.err")"
  sleep 0.05
done
[ -n "$port" ] || fail "the receiver did not begin to listen"

echo "demo: sending it over 4 lanes, the one from UDP port $slow_port slowed to $slow_rate/s"
sent=0
"$build/bin/braid_send" "$work/sent" "127.0.0.1:$port" -q 4 --sports "$ports" \
  --impair "port=$slow_port,rate=$slow_rate" --json >"$work/sender.out" || sent=$?
[ "$sent" = 0 ] || fail "braid_send exited with $sent"
received=0
wait "$receiver" || received=$?
receiver=
[ "$received" = 0 ] || fail "braid_recv exited with $received: $(cat "$work/receiver.err")"

# The last line of the sender is the JSON; the table before it is for people.
sed '$d' "$work/sender.out"
json=$(tail -n 1 "$work/sender.out")

got=$(sha256sum <"$work/received" | cut -d' ' -f1)
[ "$got" = "$want" ] || fail "the received file has SHA-256 $got, the sent one $want"
case $json in
  '{"ok":true,'*"\"sha256\":\"$want\""*) ;;
  *) fail "the sender's report does not agree: $json" ;;
esac
# Bytes per lane, from the objects of "lanes".
mapfile -t lane_bytes < <(grep -o '"segments":[0-9]*,"bytes":[0-9]*' <<<"$json" | cut -d: -f3)
[ "${#lane_bytes[@]}" = 4 ] || fail "the report does not have four lanes: $json"
for lane in 0 1 2; do
  [ "${lane_bytes[3]}" -lt "${lane_bytes[$lane]}" ] ||
    fail "the slowed lane carried ${lane_bytes[3]} bytes, lane $lane ${lane_bytes[$lane]}"
done
[ "${lane_bytes[3]}" -gt 0 ] || fail "the slowed lane carried nothing"

echo "demo: OK: $mib MiB over 4 lanes in two processes, SHA-256 $want on both sides"
