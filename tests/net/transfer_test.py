#!/usr/bin/env python3
"""braid_send and braid_recv as two processes over the soft device: sizes, lanes, lossy paths, and
every way in which a transfer can go wrong.

usage: transfer_test.py BRAID_SEND BRAID_RECV [unittest arguments]

Waits are on conditions, each with a deadline.
"""
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

SEND = RECV = ""
DEADLINE = 60.0

OK, USAGE, FILE, CONNECT, TRANSFER, INTERRUPT = 0, 2, 3, 4, 5, 130


def wait_for(condition, what, deadline=DEADLINE):
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("gave up waiting for " + what)


class Program:
    """One of the two programs, its output collected in files."""

    def __init__(self, test, arguments, cwd):
        self.out = tempfile.TemporaryFile("w+", dir=test.dir)
        self.err = tempfile.TemporaryFile("w+", dir=test.dir)
        self.process = subprocess.Popen(arguments, stdout=self.out, stderr=self.err, cwd=cwd,
                                        stdin=subprocess.DEVNULL)
        test.addCleanup(self.stop)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.out.close()
        self.err.close()

    def wait(self):
        return self.process.wait(DEADLINE)

    @staticmethod
    def _text(file):
        return os.pread(file.fileno(), 1 << 20, 0).decode(errors="replace")

    def stdout(self):
        return self._text(self.out)

    def stderr(self):
        return self._text(self.err)

    def complaint(self):
        """What it says on stderr, apart from where it listens and warnings."""
        return [line for line in self.stderr().splitlines()
                if " (device " not in line and ": warning: " not in line]

    def report(self):
        return json.loads(self.stdout().splitlines()[-1])


class TransferTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="braid_transfer_")
        self.addCleanup(shutil.rmtree, self.dir)
        self.here = os.path.join(self.dir, "here")
        self.there = os.path.join(self.dir, "there")
        os.mkdir(self.here)
        os.mkdir(self.there)

    def make_file(self, size, name="data.bin"):
        path = os.path.join(self.here, name)
        with open(path, "wb") as file:
            while size > 0:
                file.write(os.urandom(min(size, 1 << 22)))
                size -= min(size, 1 << 22)
        return path

    def receive(self, *arguments, cwd=None):
        program = Program(self, [RECV, "--listen", "127.0.0.1:0", "--wait", "60", *arguments],
                          cwd or self.there)
        def listening():
            self.assertIsNone(program.process.poll(), program.stderr())
            return re.search(r"listening on \S+ port (\d+)", program.stderr())
        program.port = int(wait_for(listening, "the receiver to listen").group(1))
        return program

    def send(self, path, port, *arguments):
        return Program(self, [SEND, path, "127.0.0.1:%d" % port, *arguments], self.here)

    def assert_same(self, one, two):
        def digest(path):
            with open(path, "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(
                    hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()
        self.assertEqual(os.path.getsize(one), os.path.getsize(two))
        self.assertEqual(digest(one), digest(two))
        return digest(one)

    def assert_one_sentence(self, program, *parts):
        lines = program.complaint()
        self.assertEqual(len(lines), 1, program.stderr())
        for part in parts:
            self.assertIn(part, lines[0])

    def assert_nothing_left(self):
        self.assertEqual(os.listdir(self.there), [])

    def transfer(self, size, *send_arguments, recv_arguments=()):
        path = self.make_file(size)
        receiver = self.receive("--json", *recv_arguments)
        sender = self.send(path, receiver.port, "--json", *send_arguments)
        self.assertEqual(sender.wait(), OK, sender.stderr())
        self.assertEqual(receiver.wait(), OK, receiver.stderr())
        digest = self.assert_same(path, os.path.join(self.there, "data.bin"))
        self.assertEqual(os.listdir(self.there), ["data.bin"])
        for program in (sender, receiver):
            report = program.report()
            self.assertTrue(report["ok"])
            self.assertEqual(report["bytes"], size)
            self.assertEqual(report["sha256"], digest)
            self.assertEqual(program.complaint(), [])
        return sender, receiver

    # --- what works -----------------------------------------------------------------------

    def test_sizes_and_lanes(self):
        segment = 512 << 10
        for lanes in (1, 4, 32, 128):
            for size in (0, 1, 4097, segment, segment + 1, (4 << 20) + 12345):
                with self.subTest(lanes=lanes, size=size):
                    sender, receiver = self.transfer(size, "-q", str(lanes))
                    for program in (sender, receiver):
                        report = program.report()
                        self.assertEqual(len(report["lanes"]), lanes)
                        self.assertEqual(report["duplicate_segments"], 0)
                        self.assertEqual(report["out_of_window_segments"], 0)
                    sent = sum(lane["bytes"] for lane in sender.report()["lanes"])
                    self.assertGreaterEqual(sent, size)
                    os.unlink(os.path.join(self.there, "data.bin"))

    def test_larger_than_the_ring_of_slots(self):
        self.transfer((130 << 20) + 3, "-q", "3", "--segment", "1MiB")

    def test_odd_segment_and_small_window(self):
        self.transfer(3_000_001, "-q", "5", "--segment", "1000", "--window", "16", "--depth", "3")

    def test_table_and_json_agree_and_ports_are_those_asked_for(self):
        sender, _ = self.transfer(9_000_000, "-q", "4", "--sports", "50101,50102,50103")
        lanes = sender.report()["lanes"]
        self.assertEqual([lane["source_port"] for lane in lanes], [50101, 50102, 50103, 50101])
        self.assertAlmostEqual(sum(lane["share"] for lane in lanes), 1.0)
        rows = re.findall(r"^ *(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +([\d.]+)% +([\d.]+) us$",
                          sender.stdout(), re.M)
        self.assertEqual(len(rows), 4)
        for row, lane in zip(rows, lanes):
            self.assertEqual([int(cell) for cell in row[:5]],
                             [lane["lane"], lane["qpn"], lane["source_port"], lane["segments"],
                              lane["bytes"]])
            self.assertGreater(float(row[6]), 0)

    def test_lossy_duplicating_reordering_corrupting_path(self):
        self.transfer(8 << 20, "-q", "4", "--seed", "1", "--impair",
                      "loss=1%,dup=1%,reorder=1%,corrupt=0.1%",
                      recv_arguments=("--seed", "2", "--impair", "loss=1%,dup=1%"))

    # Requirement: 14
    # Fault: A22
    def test_path_that_swallows_everything_is_left_and_nothing_is_lost(self):
        sender, receiver = self.transfer(
            40 << 20, "-q", "4", "--sports", "50201,50202,50203,50204",
            "--impair", "port=50203,loss=100%", "--impair", "rate=400Mbit")
        lane = sender.report()["lanes"][2]
        self.assertGreaterEqual(lane["replaced"], 1)
        self.assertNotEqual(lane["source_port"], 50203)
        self.assertIn("lane 2 failed and was replaced", sender.stdout())
        self.assertEqual(receiver.report()["duplicate_segments"], 0)

    def test_sender_leaves_before_its_last_acknowledgement_arrives(self):
        # Only the lane is late: the farewell, on the control QP, overtakes the acknowledgement.
        self.transfer(1000, "-q", "1", "--sports", "50001", "--impair", "port=50001,delay=150ms")

    def test_slowed_lane_gets_less(self):
        sender, _ = self.transfer(48 << 20, "-q", "4", "--depth", "4", "--sports",
                                  "50001,50002,50003,50004", "--impair",
                                  "port=50004,rate=20Mbit")
        lanes = sender.report()["lanes"]
        for lane in lanes[:3]:
            self.assertLess(lanes[3]["bytes"], lane["bytes"])

    def test_output_name_force_and_existing_file(self):
        path = self.make_file(1000)
        target = os.path.join(self.there, "chosen")
        with open(target, "w") as file:
            file.write("precious")
        receiver = self.receive("-o", target)
        sender = self.send(path, receiver.port)
        self.assertEqual((sender.wait(), receiver.wait()), (FILE, FILE))
        self.assert_one_sentence(receiver, "exists already", "-f")
        self.assert_one_sentence(sender, "the receiver gave up", "exists already")
        with open(target) as file:
            self.assertEqual(file.read(), "precious")
        receiver = self.receive("-o", target, "-f")
        sender = self.send(path, receiver.port)
        self.assertEqual((sender.wait(), receiver.wait()), (OK, OK), sender.stderr())
        self.assert_same(path, target)

    def test_name_comes_without_its_directories(self):
        path = self.make_file(10)
        receiver = self.receive()
        sender = self.send("../here/" + os.path.basename(path), receiver.port)
        self.assertEqual((sender.wait(), receiver.wait()), (OK, OK), sender.stderr())
        self.assertEqual(os.listdir(self.there), ["data.bin"])

    # --- what goes wrong ------------------------------------------------------------------

    def test_usage_errors(self):
        for arguments in ([SEND], [SEND, "x", "y", "-q", "0"], [SEND, "x", "y", "-q", "129"],
                          [SEND, "x", "y", "--sports", "1,70000"], [RECV, "--nonsense"],
                          [SEND, __file__, ":1"], [RECV, "--listen", "[::1"],
                          [SEND, __file__, "127.0.0.1", "--impair", "port=1,rate=fast"],
                          [SEND, __file__, "127.0.0.1", "--window", "100"]):
            with self.subTest(arguments=arguments[1:]):
                program = Program(self, arguments, self.here)
                self.assertEqual(program.wait(), USAGE, program.stderr())
                self.assertNotEqual(program.stderr(), "")

    def test_device_that_does_not_exist(self):
        sender = self.send(self.make_file(10), 1, "--device", "no_such_device")
        self.assertEqual(sender.wait(), CONNECT)
        self.assert_one_sentence(sender, "RDMA")

    def test_options_before_the_names(self):
        path = self.make_file(10)
        receiver = self.receive()
        sender = Program(self, [SEND, "--sports", "50201,50202", path,
                                "127.0.0.1:%d" % receiver.port], self.here)
        self.assertEqual((sender.wait(), receiver.wait()), (OK, OK), sender.stderr())

    def test_missing_file_and_directory(self):
        for name, words in (("nothing-here", "No such file"), (".", "not a regular file")):
            sender = self.send(name, 1)
            self.assertEqual(sender.wait(), FILE)
            self.assert_one_sentence(sender, words)

    def test_nobody_listens(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]  # bound, and nobody listens
            sender = self.send(self.make_file(10), port, "--timeout", "0.5", "--json")
            self.assertEqual(sender.wait(), CONNECT)
        self.assert_one_sentence(sender, "127.0.0.1:%d" % port, "refused")
        self.assertFalse(sender.report()["ok"])

    def test_host_that_does_not_answer(self):
        with socket.socket() as mute:
            mute.bind(("127.0.0.1", 0))
            mute.listen(1)  # accepts in the kernel, and never says a word
            sender = self.send(self.make_file(10), mute.getsockname()[1], "--timeout", "0.5")
            self.assertEqual(sender.wait(), CONNECT)
        self.assert_one_sentence(sender, "did not", "in time")

    def test_unknown_host(self):
        sender = Program(self, [SEND, self.make_file(10), "no-such-host.invalid"], self.here)
        self.assertEqual(sender.wait(), CONNECT)
        self.assert_one_sentence(sender, "no-such-host.invalid")

    def test_sender_meets_garbage(self):
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen(1)
            sender = self.send(self.make_file(10), server.getsockname()[1])
            peer, _ = server.accept()
            with peer:
                peer.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")
                self.assertEqual(sender.wait(), CONNECT)
        self.assert_one_sentence(sender, "does not speak Braid")

    def test_receiver_survives_garbage_scans_and_half_open_sockets(self):
        receiver = self.receive()
        address = ("127.0.0.1", receiver.port)
        header = struct.pack(">IHHI", 0x42524431, 1, 1, 16)
        silent = [socket.create_connection(address) for _ in range(100)]
        for payload in (b"GET / HTTP/1.0\r\n\r\n", b"\0" * 4096, os.urandom(4096), header,
                        struct.pack(">IHHI", 0x42524431, 1, 1, 0xFFFFFFFF),
                        struct.pack(">IHHI", 0x42524431, 1, 1, 4) + b"1234",
                        header + struct.pack(">IIII", 129, 0, 1024, 64),
                        header + struct.pack(">IIII", 4, 0, 1023, 64)):
            with socket.create_connection(address) as peer:
                peer.sendall(payload)
        for _ in range(20):
            with socket.create_connection(address) as peer:
                # Reset instead of a proper end.
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        path = self.make_file(100_000)
        sender = self.send(path, receiver.port)
        self.assertEqual((sender.wait(), receiver.wait()), (OK, OK),
                         sender.stderr() + receiver.stderr())
        self.assert_same(path, os.path.join(self.there, "data.bin"))
        for peer in silent:
            peer.close()

    def test_lane_counts_that_differ(self):
        receiver = self.receive("-q", "3")
        sender = self.send(self.make_file(10), receiver.port, "-q", "5")
        self.assertEqual((sender.wait(), receiver.wait()), (CONNECT, CONNECT))
        self.assert_one_sentence(sender, "this side has 5", "the peer has 3", "-q")
        self.assert_one_sentence(receiver, "this side has 3", "the peer has 5", "-q")
        self.assert_nothing_left()

    def test_listen_address_taken(self):
        receiver = self.receive()
        second = Program(self, [RECV, "--listen", "127.0.0.1:%d" % receiver.port], self.there)
        self.assertEqual(second.wait(), CONNECT)
        self.assert_one_sentence(second, str(receiver.port), "in use")

    def test_soft_address_that_is_not_ours(self):
        sender = self.send(self.make_file(10), 1, "--soft-address", "192.0.2.77")
        self.assertEqual(sender.wait(), CONNECT)
        self.assertIn("192.0.2.77", sender.stderr())

    def start_slow_transfer(self):
        """A transfer of which some bytes have arrived and most have not."""
        path = self.make_file(1 << 20)
        os.truncate(path, 192 << 20)  # three times what both sides hold in their slots
        receiver = self.receive("--timeout", "10")
        sender = self.send(path, receiver.port, "-q", "2", "--timeout", "10", "--impair",
                           "rate=100Mbit")
        part = os.path.join(self.there, "data.bin.part")
        def some_arrived():
            self.assertIsNone(receiver.process.poll(), receiver.stderr())
            if not os.path.exists(part):
                return False
            with open(part, "rb") as file:
                return any(file.read(4096))
        wait_for(some_arrived, "the first bytes")
        return sender, receiver

    def test_sender_killed(self):
        sender, receiver = self.start_slow_transfer()
        sender.process.kill()
        self.assertEqual(receiver.wait(), TRANSFER)
        self.assert_one_sentence(receiver, "the transfer broke", "127.")
        self.assert_nothing_left()

    def test_receiver_killed(self):
        sender, receiver = self.start_slow_transfer()
        receiver.process.kill()
        self.assertEqual(sender.wait(), TRANSFER)
        self.assert_one_sentence(sender, "the transfer broke", "127.")
        # The killed receiver could not clean up, but nothing has the final name.
        self.assertEqual(os.listdir(self.there), ["data.bin.part"])

    def test_leftover_part_file_is_no_obstacle(self):
        with open(os.path.join(self.there, "data.bin.part"), "wb") as file:
            file.write(b"x" * 100_000)
        self.transfer(1000)

    def test_receiver_interrupted(self):
        sender, receiver = self.start_slow_transfer()
        receiver.process.send_signal(signal.SIGINT)
        self.assertEqual(receiver.wait(), INTERRUPT)
        self.assertEqual(sender.wait(), TRANSFER)
        self.assert_nothing_left()

    def test_sender_interrupted(self):
        sender, receiver = self.start_slow_transfer()
        sender.process.send_signal(signal.SIGTERM)
        self.assertEqual(sender.wait(), INTERRUPT)
        self.assertEqual(receiver.wait(), TRANSFER)
        self.assert_nothing_left()

    def test_report_that_nobody_takes(self):
        path = self.make_file(1000)
        receiver = self.receive()
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([SEND, path, "127.0.0.1:%d" % receiver.port, "--json"],
                                  stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(receiver.wait(), OK, receiver.stderr())
        self.assert_same(path, os.path.join(self.there, "data.bin"))

    def test_source_file_truncated_meanwhile(self):
        sender, receiver = self.start_slow_transfer()
        os.truncate(os.path.join(self.here, "data.bin"), 1 << 20)
        self.assertEqual((sender.wait(), receiver.wait()), (FILE, FILE))
        self.assert_one_sentence(sender, "became shorter")
        self.assert_one_sentence(receiver, "the sender gave up", "became shorter")
        self.assert_nothing_left()

    def test_target_directory_missing(self):
        receiver = self.receive("-o", os.path.join(self.there, "no", "such", "file"))
        sender = self.send(self.make_file(10), receiver.port)
        self.assertEqual((sender.wait(), receiver.wait()), (FILE, FILE))
        self.assert_one_sentence(receiver, "cannot create", "No such file")
        self.assert_one_sentence(sender, "the receiver gave up", "No such file")

    def test_full_disk(self):
        if os.geteuid() != 0:
            self.skipTest("mounting a small file system takes root")
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", self.there],
                               capture_output=True, text=True)
        if mount.returncode != 0:
            self.skipTest("no tmpfs can be mounted here: " + mount.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", self.there], check=True)
        receiver = self.receive(cwd=self.there)
        sender = self.send(self.make_file(8 << 20), receiver.port)
        self.assertEqual((sender.wait(), receiver.wait()), (FILE, FILE))
        self.assert_one_sentence(receiver, "no room for %d bytes" % (8 << 20), "No space left")
        self.assert_one_sentence(sender, "the receiver gave up", "No space left")
        self.assert_nothing_left()


if __name__ == "__main__":
    SEND, RECV = sys.argv[1], sys.argv[2]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
