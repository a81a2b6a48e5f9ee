#!/bin/sh
# The guest's first process, run by busybox: brings up what the tests need, hands over to the
# machine's own files under chroot, and powers off. The outcome is in the writable share.
busybox=/bin/busybox
$busybox mount -t proc proc /proc
$busybox mount -t sysfs sysfs /sys
$busybox mount -t devtmpfs dev /dev
for module in virtio_pci ipv6 9pnet_virtio 9p veth crc32_generic crc32_pclmul ib_core \
  ib_uverbs configfs rdma_ucm rdma_rxe sch_netem; do
  /sbin/modprobe "$module" || echo "guest: module $module does not load"
done
options=trans=virtio,version=9p2000.L,msize=262144
$busybox mount -t 9p -o "$options,cache=loose,ro" host /host || $busybox poweroff -f
$busybox mount -t 9p -o "$options" out /out || $busybox poweroff -f
for place in proc sys dev; do $busybox mount -o bind "/$place" "/host/$place"; done
# Not /tmp: the tree under test may lie there.
$busybox mount -t tmpfs tmpfs /host/run
$busybox mkdir -p /host/run/out /host/run/tmp /host/dev/shm
$busybox mount -t tmpfs tmpfs /host/dev/shm
$busybox mount -o bind /out /host/run/out
. /out/arguments
TMPDIR=/run/tmp PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run \
  $busybox chroot /host /bin/bash "$ROOT/tests/rxe/guest_tests.sh" /run/out
echo $? >/out/status
$busybox sync
$busybox poweroff -f
