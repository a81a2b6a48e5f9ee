#!/usr/bin/env python3
"""Runs Debian's verbs programs, which nobody here wrote, over the preloaded soft device.

Two processes each, on loopback. Every run has a deadline; both exit codes and the printed figures
are checked. Usage: foreign_programs_test.py LIBRARY [--only TEXT]
Exit status: 0 all good, 1 a failure, 77 the programs are not installed.
"""

import argparse
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

DEADLINE_S = 120

# name, options. -F keeps a CPU-frequency warning from failing the run.
# -N posts by ibv_wr_*(), which perftest leaves to a few vendors' devices; -c compares the bytes.
PINGPONG = [["-n", "500"], ["-e", "-n", "500"], ["-s", "1", "-n", "200"],
            ["-s", "100000", "-n", "200"], ["-m", "256", "-n", "200"],
            ["-N", "-n", "500"], ["-N", "-e", "-c", "-n", "200"]]
SRQ_PINGPONG = [["-q", "8", "-n", "500"], ["-q", "8", "-e", "-n", "500"]]
BANDWIDTH = ["ib_write_bw", "ib_read_bw", "ib_send_bw"]
LATENCY = ["ib_write_lat", "ib_read_lat", "ib_send_lat"]


def perftest_matrix():
    for program in BANDWIDTH:
        for queues in ("1", "8"):
            yield [program, "-q", queues, "-n", "400", "-s", "65536"]
        yield [program, "-a", "-n", "20"]  # 2 bytes to 8 MiB
        yield [program, "-s", "1", "-n", "1000"]
        yield [program, "-b", "-n", "400", "-s", "65536"]
        yield [program, "-q", "8", "-b", "-n", "200", "-s", "4097"]
        if program != "ib_write_bw":  # perftest refuses events there: a WRITE raises none
            yield [program, "-e", "-n", "400", "-s", "65536"]
            yield [program, "-e", "-b", "-q", "8", "-n", "100", "-s", "4096"]
    for program in ("ib_write_bw", "ib_send_bw"):
        yield [program, "-I", "64", "-s", "64", "-n", "2000"]
    yield ["ib_send_bw", "-r", "64", "-q", "8", "-n", "200", "--use-srq"]
    for program in LATENCY:
        yield [program, "-n", "500", "-s", "8"]
        yield [program, "-n", "20", "-a"]
    for program in ("ib_read_lat", "ib_send_lat"):
        yield [program, "-e", "-n", "200", "-s", "8"]
    for program in ("ib_write_lat", "ib_send_lat"):
        yield [program, "-I", "32", "-n", "200", "-s", "32"]
    for kind in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
        yield ["ib_atomic_bw", "-A", kind, "-n", "1000"]
        yield ["ib_atomic_bw", "-A", kind, "-q", "8", "-n", "400"]
    yield ["ib_atomic_lat", "-n", "500"]
    yield ["ib_write_bw", "-m", "256", "-n", "200", "-s", "65536"]
    yield ["ib_write_bw", "--tclass=104", "-n", "200", "-s", "65536"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_listening(port, process, deadline):
    """Looks for the listener in /proc, since a trial connection would be taken for the peer."""
    wanted = f":{port:04X}"
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return False
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with open(table, encoding="ascii") as lines:
                for line in lines:
                    fields = line.split()
                    if fields[1].endswith(wanted) and fields[3] == "0A":
                        return True
        time.sleep(0.01)
    return False


def free_address():
    """An address of loopback on which no device is."""
    while True:
        address = "127." + ".".join(str(random.randint(1, 254)) for _ in range(3))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, 4791))
                return address
            except OSError:
                continue


def run_pair(library, command, port_option, addresses=(), **variables):
    """Returns (error or None, output of the client). `addresses`: of the server, the client."""
    port = free_port()
    base = command + [port_option, str(port)]
    base += ["-g", "0"] if command[0].endswith("_pingpong") else ["-x", "0", "-F"]
    environments = [dict(os.environ, LD_PRELOAD=library, **variables) for _ in range(2)]
    for environment, address in zip(environments, addresses):
        environment["BRAID_SOFT_ADDRESS"] = address
    deadline = time.monotonic() + DEADLINE_S
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    server = subprocess.Popen(base, env=environments[0], **pipes)
    try:
        if not wait_until_listening(port, server, deadline):
            return "the server does not listen: " + (server.communicate(timeout=5)[0] or ""), ""
        client = subprocess.run(base + ["127.0.0.1"], env=environments[1], timeout=DEADLINE_S,
                                check=False, **pipes)
        said = server.communicate(timeout=DEADLINE_S)[0]
    except subprocess.TimeoutExpired:
        return "it does not end", ""
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    if client.returncode != 0:
        return f"the client exits with {client.returncode}: {client.stdout[-800:]}", client.stdout
    if server.returncode != 0:
        return f"the server exits with {server.returncode}: {said[-800:]}", client.stdout
    return None, client.stdout


def figures_of(output):
    """The rows of perftest's table: lists of numbers."""
    rows = []
    for line in output.splitlines():
        fields = line.split()
        if len(fields) >= 4 and all(re.fullmatch(r"\d+(\.\d+)?", field) for field in fields):
            rows.append([float(field) for field in fields])
    return rows


def check_perftest(output):
    rows = figures_of(output)
    if not rows:
        return "it prints no figures"
    for row in rows:
        # Small messages round to 0.00 MB/s on a busy machine; the last column keeps the digits.
        if max(row[2:]) <= 0:
            return f"a figure is not above zero: {row}"
    return None


def check_devinfo(library):
    done = subprocess.run(["ibv_devinfo", "-v"], env=dict(os.environ, LD_PRELOAD=library),
                          capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    for wanted in ("braid_soft0", "PORT_ACTIVE", "link_layer:\t\tEthernet", "RoCE v2"):
        if wanted not in done.stdout:
            return f"ibv_devinfo does not show {wanted!r}: {done.stdout[-800:]}{done.stderr}"
    return None


def capture(library, path):
    """Captures an exchange of every kind of operation into `path`. Error text, or None."""
    addresses = (free_address(), free_address())
    # Only this exchange: other devices may be at work on loopback.
    wanted = f"udp port 4791 and host {addresses[0]} and host {addresses[1]}"
    tshark = subprocess.Popen(["tshark", "-i", "lo", "-f", wanted, "-w", path],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        said = ""
        while "Capturing on" not in said:
            line = tshark.stderr.readline()
            if not line:
                return "tshark does not capture: " + said
            said += line
        for command in (["ibv_rc_pingpong", "-n", "20", "-s", "5001"],
                        ["ib_write_bw", "-n", "20", "-s", "5001"],
                        ["ib_read_bw", "-n", "20", "-s", "9001"],
                        ["ib_atomic_bw", "-n", "20"]):
            # Loopback shows a segmented send as one frame, in which only the first packet is seen.
            error, _ = run_pair(library, command, "-p", addresses,
                                BRAID_SOFT_SEGMENTATION_OFFLOAD="0")
            if error:
                return error
        # The capture is complete when its packets have reached the file.
        deadline = time.monotonic() + 20
        while not {17, 18} <= set(opcodes_of(path)):
            if time.monotonic() > deadline:
                return "the capture does not hold the exchange"
            time.sleep(0.2)
    finally:
        tshark.terminate()
        tshark.wait()
    return None


def decode(path, *arguments):
    # Its guess at a protocol inside short SENDs calls them malformed; RoCE itself is what counts.
    done = subprocess.run(["tshark", "--disable-protocol", "rpcordma", "-r", path, *arguments],
                          capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    return done.stdout.split()


def opcodes_of(path):
    return [int(text) for text in decode(path, "-T", "fields", "-e", "infiniband.bth.opcode")]


def check_capture(library):
    if shutil.which("tshark") is None or os.geteuid() != 0:
        print("     (no tshark, or no right to capture: not checked)")
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "exchange.pcapng")
        error = capture(library, path)
        if error:
            return error
        seen = set(opcodes_of(path))
        # SEND first, last; WRITE first, last; READ request and responses; ACK; atomics.
        wanted = {0, 2, 6, 8, 12, 13, 14, 15, 17, 18, 20}
        if not wanted <= seen:
            return f"opcodes {sorted(wanted - seen)} were not decoded, only {sorted(seen)}"
        malformed = decode(path, "-Y", "_ws.malformed || _ws.expert.severity == error")
        return f"malformed: {' '.join(malformed[:40])}" if malformed else None


def check_bad_environment(library):
    environment = dict(os.environ, LD_PRELOAD=library, BRAID_SOFT_MTU="1500")
    done = subprocess.run(["ibv_devinfo"], env=environment, capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False)
    if done.returncode == 0 or "BRAID_SOFT_MTU" not in done.stderr:
        return f"a bad variable is not refused by name: {done.returncode} {done.stderr}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("--only", default="", help="only runs whose command has this text")
    arguments = parser.parse_args()
    needed = ["ibv_devinfo", "ibv_rc_pingpong", "ibv_srq_pingpong", "ib_atomic_bw",
              "ib_atomic_lat", *BANDWIDTH, *LATENCY]
    missing = [program for program in needed if shutil.which(program) is None]
    if missing:
        print("SKIP: not installed:", *missing)
        return 77
    runs = [("ibv_devinfo", lambda: check_devinfo(arguments.library)),
            ("bad environment", lambda: check_bad_environment(arguments.library)),
            ("tshark decodes the exchange", lambda: check_capture(arguments.library))]

    def pair(command, port_option, check):
        def run():
            error, output = run_pair(arguments.library, command, port_option)
            return error or check(output)
        return " ".join(command), run

    pingpongs = [["ibv_rc_pingpong", *options] for options in PINGPONG]
    pingpongs += [["ibv_srq_pingpong", *options] for options in SRQ_PINGPONG]
    runs += [pair(command, "-p",
                  lambda out: None if "usec/iter" in out else "it prints no result")
             for command in pingpongs]
    runs += [pair(command, "-p", check_perftest) for command in perftest_matrix()]
    failed = passed = 0
    for name, run in runs:
        if arguments.only not in name:
            continue
        begin = time.monotonic()
        error = run()
        took = time.monotonic() - begin
        print(f"{'FAIL' if error else 'ok  '} {took:6.2f} s  {name}", flush=True)
        if error:
            failed += 1
            print("     " + error, flush=True)
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
