"""Runs the simulated fabric's figures at a small size and checks the lines of --json."""

import json
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)


class SimJsonTest(unittest.TestCase):
    def test_one_object_per_figure(self):
        done = subprocess.run(
            [PROGRAM, "--runs", "2", "--mebibytes", "16", "--idle-hosts", "64", "--json"],
            capture_output=True, text=True, timeout=100, check=False)  # fmt: skip
        # 1 when a goal is missed: this machine may be busy, or its build slow.
        self.assertIn(done.returncode, (0, 1), done.stderr)
        figures = {f["name"]: f for f in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(len(figures), 5)
        for figure in figures.values():
            self.assertEqual(figure["runs"], 2)
            self.assertGreater(figure["value"], 0)
        # Memory does not depend on the machine's load.
        self.assertTrue(figures["sim_memory_per_idle_host"]["ok"])

    def test_unknown_option_is_a_usage_error(self):
        done = subprocess.run([PROGRAM, "--no-such-option"], capture_output=True, timeout=20)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
