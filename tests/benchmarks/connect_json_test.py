"""Runs a small crowd of channels and checks the lines that benchmarks/run.sh connect promises."""

import json
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)


class ConnectJsonTest(unittest.TestCase):
    # Requirement: 1
    def test_every_figure_is_there_and_positive(self):
        done = subprocess.run([PROGRAM, "--runs", "2", "--crowd-runs", "1", "--channels", "100",
                               "--crowd-lanes", "1", "--json"],
                              capture_output=True, text=True, timeout=100, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = {figure["name"]: figure for figure in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(list(figures), ["connect_100_channels_of_1_lanes",
                                         "memory_per_channel_of_1_lanes", "connect_1_lanes",
                                         "connect_16_lanes"])  # fmt: skip
        for figure in figures.values():
            self.assertGreater(figure["value"], 0)
        self.assertEqual(figures["connect_16_lanes"]["runs"], 2)

    def test_unknown_option_is_a_usage_error(self):
        done = subprocess.run([PROGRAM, "--no-such-option"], capture_output=True, timeout=20)
        self.assertEqual(done.returncode, 2)
        self.assertNotEqual(done.stderr, b"")


if __name__ == "__main__":
    unittest.main()
