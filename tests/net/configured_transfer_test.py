#!/usr/bin/env python3
"""braid_send and braid_recv under configuration: what holds is what the wire shows.

usage: configured_transfer_test.py BRAID_SEND BRAID_RECV [unittest arguments]

Waits are on conditions, each with a deadline.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SEND = RECV = ""
DEADLINE_S = 60.0
CAPTURE_DELAY_S = 20.0
OK, USAGE = 0, 2


def free_address():
    """A loopback address on which nobody has RoCE's port."""
    for _ in range(100):
        address = "127.%d.%d.%d" % (100 + os.urandom(1)[0] % 100, *os.urandom(2))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, 4791))
                return address
            except OSError:
                continue
    raise AssertionError("no free loopback address")


def clean_environment(**more):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("BRAID_", "HCCL_"))}
    return dict(kept, **more)


class IncompleteCapture(AssertionError):
    """Packets that were sent did not reach the file in time."""


class Capture:
    """Everything between two addresses on RoCE's port, while it is entered."""

    FIELDS = ("ip.src", "ip.dsfield.dscp", "udp.srcport", "infiniband.bth.opcode")

    def __init__(self, path, addresses):
        self.path = path
        self.filter = "udp port 4791 and host %s and host %s" % addresses

    def __enter__(self):
        self.process = subprocess.Popen(
            ["tshark", "-i", "lo", "-f", self.filter, "-w", self.path],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = ""
        while "Capturing on" not in said:
            line = self.process.stderr.readline()
            if not line:
                raise AssertionError("tshark does not capture: " + said)
            said += line
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.stderr.close()
        self.process.wait()

    def packets(self):
        """(source, DSCP, source port, opcode) of every packet so far."""
        fields = [word for field in self.FIELDS for word in ("-e", field)]
        done = subprocess.run(["tshark", "--disable-protocol", "rpcordma", "-r", self.path,
                               "-T", "fields", *fields],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        return [(row[0], *map(int, row[1:])) for row in rows if len(row) == 4 and all(row)]

    def whole(self, is_whole):
        """The packets once they satisfy the condition: they reach the file with delay."""
        end = time.monotonic() + CAPTURE_DELAY_S
        while time.monotonic() < end:
            packets = self.packets()
            if is_whole(packets):
                return packets
            time.sleep(0.1)
        raise IncompleteCapture("the capture does not hold the exchange")


class ConfiguredTransferTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="braid_configured_")
        self.addCleanup(shutil.rmtree, self.dir)
        self.file = os.path.join(self.dir, "data.bin")
        with open(self.file, "wb") as file:
            file.write(os.urandom(300_000))
        self.there = os.path.join(self.dir, "there")
        os.mkdir(self.there)

    def start(self, arguments, environment):
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, text=True, cwd=self.there,
                                   env=environment)
        def stop():
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.addCleanup(stop)
        return process

    def listening_port(self, receiver):
        said = ""
        while True:
            line = receiver.stderr.readline()
            self.assertTrue(line, "the receiver ended: " + said)
            said += line
            found = re.search(r"listening on \S+ port (\d+)", line)
            if found:
                return int(found.group(1))

    def transfer(self, addresses, sender_env, receiver_env, *send_arguments, recv_arguments=()):
        """Both reports."""
        common = {"BRAID_SOFT_SEGMENTATION_OFFLOAD": "0"}
        receiver = self.start(
            [RECV, "-f", "--listen", "127.0.0.1:0", "--wait", "60", "--json", "--soft-address",
             addresses[1], *recv_arguments], clean_environment(**common, **receiver_env))
        port = self.listening_port(receiver)
        sender = self.start(
            [SEND, self.file, "127.0.0.1:%d" % port, "--json", "--soft-address", addresses[0],
             *send_arguments], clean_environment(**common, **sender_env))
        reports = []
        for process in (sender, receiver):
            out, err = process.communicate(timeout=DEADLINE_S)
            self.assertEqual(process.returncode, OK, err)
            reports.append(json.loads(out.splitlines()[-1]))
        return reports

    def need_capture(self):
        if shutil.which("tshark") is None or os.geteuid() != 0:
            self.skipTest("no tshark, or no right to capture")

    def captured(self, sender_env, receiver_env, *send_arguments, recv_arguments=()):
        """The addresses of both, and every packet between them."""
        self.need_capture()
        # On a busy machine the capture itself may lose packets; that says nothing of the programs.
        for attempt in range(3):
            addresses = (free_address(), free_address())
            with Capture(os.path.join(self.dir, "packets.pcapng"), addresses) as capture:
                reports = self.transfer(addresses, sender_env, receiver_env, *send_arguments,
                                        recv_arguments=recv_arguments)
                try:
                    # 74 packets of 4096 bytes one way, and acknowledgements the other.
                    packets = capture.whole(
                        lambda seen: sum(one[0] == addresses[0] for one in seen) >= 74
                        and any(one[0] == addresses[1] and one[3] == 17 for one in seen))
                    break
                except IncompleteCapture:
                    if attempt == 2:
                        raise
        return addresses, packets, reports

    # Requirement: 7b, 37
    # Fault: A26
    def test_each_sides_traffic_class_is_in_every_packet_it_sends(self):
        (here, there), packets, _ = self.captured(
            {"HCCL_RDMA_TC": "104"}, {"HCCL_RDMA_TC": "200"}, "-q", "4",
            recv_arguments=("--tclass", "72"))  # which beats the variable
        self.assertEqual({one[1] for one in packets if one[0] == here}, {104 // 4})
        self.assertEqual({one[1] for one in packets if one[0] == there}, {72 // 4})
        # Writes, acknowledgements and the control queue pair's messages are all among them.
        self.assertLessEqual({4, 17}, {one[3] for one in packets})

    # Requirement: 37
    def test_nothing_configured_dscp_33(self):
        _, packets, _ = self.captured({}, {})
        self.assertEqual({one[1] for one in packets}, {33})

    # Requirement: 8, 9, 10
    def test_lanes_and_ports_of_the_environment_are_on_the_wire(self):
        ports = [50301, 50302, 50303]
        (here, _), packets, (sent, _) = self.captured(
            {"HCCL_RDMA_QPS_PER_CONNECTION": "3",
             "HCCL_HOST_RDMA_UDP_PORTS_LIST": "0:1000;7:50301,50302,50303"}, {},
            "--device-id", "7", "--segment", "4KiB")
        self.assertEqual([lane["source_port"] for lane in sent["lanes"]], ports)
        self.assertLessEqual(set(ports), {one[2] for one in packets if one[0] == here})

    # Requirement: 8, 9
    def test_lanes_and_ports_of_the_pair_of_addresses(self):
        folder = os.path.join(self.dir, "pairs")
        os.mkdir(folder)
        addresses = (free_address(), free_address())
        with open(os.path.join(folder, "MultiQpSrcPort.cfg"), "w") as file:
            file.write("# pairs\r\n%s, 127.0.0.1 = 50401, 50402\r\n" % addresses[0])
        sent, received = self.transfer(
            addresses, {"BRAID_RDMA_QP_PORT_CONFIG_PATH": folder}, {})
        self.assertEqual([lane["source_port"] for lane in sent["lanes"]], [50401, 50402])
        self.assertEqual(len(received["lanes"]), 2)

    # Requirement: 10
    def test_more_ports_than_lanes_warns(self):
        done = self.print_config({}, "-q", "1", "--sports", "50001,50002")
        self.assertEqual(done.returncode, OK)
        self.assertIn("braid_send: warning: 2 source ports for 1 lanes", done.stderr)

    def print_config(self, environment, *arguments, program=None):
        command = [program or SEND, *([] if program else [self.file, "127.0.0.1:1"]),
                   "--print-config", *arguments]
        return subprocess.run(command, env=clean_environment(**environment), cwd=self.there,
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    # Fault: B1
    def test_print_config_says_value_origin_and_what_was_overridden(self):
        environment = {"BRAID_RDMA_TC": "104", "HCCL_RDMA_TC": "128", "HCCL_RDMA_TIMEOUT": "18"}
        done = self.print_config(environment, "--json", "--retry", "3")
        self.assertEqual(done.returncode, OK, done.stderr)
        told = json.loads(done.stdout)
        by_name = {each["name"]: each for each in told["settings"]}
        self.assertEqual(by_name["traffic_class"]["value"], "104")
        self.assertEqual(by_name["traffic_class"]["where"], "BRAID_RDMA_TC")
        self.assertEqual(by_name["traffic_class"]["overrode"][0],
                         {"value": "128", "source": "environment", "where": "HCCL_RDMA_TC"})
        self.assertEqual(by_name["retry_count"]["source"], "explicit")
        self.assertEqual(by_name["ack_timeout_exponent"]["value"], "18")
        self.assertEqual(len(told["warnings"]), 1)
        text = self.print_config(environment)
        self.assertRegex(text.stdout, r"(?m)^traffic_class +\= 104  \[environment BRAID_RDMA_TC; ")
        receiver = self.print_config(environment, "--json", program=RECV)
        self.assertEqual(receiver.returncode, OK, receiver.stderr)
        self.assertEqual(json.loads(receiver.stdout)["settings"][1]["value"], "0")

    # Requirement: 37, 38
    def test_wrong_values_end_in_one_sentence_and_nothing_happens(self):
        for environment, arguments, words in (
                ({"HCCL_RDMA_TC": "131"}, (), "HCCL_RDMA_TC is '131'; allowed is"),
                ({"HCCL_RDMA_SL": "8"}, (), "HCCL_RDMA_SL is '8'; allowed is"),
                ({"HCCL_RDMA_RETRY_CNT": "0"}, (), "HCCL_RDMA_RETRY_CNT is '0'; allowed is"),
                ({"BRAID_PROFILE": "hcomm-a2", "HCCL_RDMA_TIMEOUT": "21"}, (),
                 "HCCL_RDMA_TIMEOUT is '21'; allowed is a whole number from 5 to 20"),
                ({}, ("--tclass", "3"), "traffic_class is '3'; allowed is"),
                ({}, ("--sl", "8"), "service_level is '8'; allowed is"),
                ({}, ("--retry", "8"), "retry_count is '8'; allowed is"),
                ({}, ("--ack-timeout", "32"), "ack_timeout_exponent is '32'; allowed is")):
            done = self.print_config(environment, *arguments)
            self.assertEqual(done.returncode, USAGE, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertIn(words, done.stderr)

    def test_receiver_takes_the_first_free_configured_port(self):
        with socket.socket() as taken, socket.socket() as probe:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            probe.bind(("127.0.0.1", 0))
            free = probe.getsockname()[1]
            probe.close()
            ports = "%d,%d" % (taken.getsockname()[1], free)
            receiver = self.start([RECV, "--listen", "127.0.0.1", "--wait", "60"],
                                  clean_environment(BRAID_HOST_SOCKET_PORT_RANGE=ports))
            self.assertEqual(self.listening_port(receiver), free)


if __name__ == "__main__":
    SEND, RECV = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
