"""Runs the engine's figures and checks the lines that benchmarks/run.sh --json promises."""

import json
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
KEYS = ["name", "value", "unit", "baseline", "ratio", "runs", "cv", "goal", "ok"]


class JsonTest(unittest.TestCase):
    def test_one_object_per_line_with_every_key(self):
        done = subprocess.run([PROGRAM, "--only-engine", "--runs", "2", "--json"],
                              capture_output=True, text=True, timeout=100, check=True)  # fmt: skip
        figures = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len({figure["name"] for figure in figures}), 5)
        for figure in figures:
            self.assertEqual(list(figure), KEYS)
            self.assertEqual(figure["runs"], 2)
            self.assertGreater(figure["value"], 0)
            self.assertIs(figure["ok"], True)
            if "share" in figure["name"]:
                self.assertGreater(figure["baseline"], 0)
                self.assertGreater(figure["ratio"], 0)
            else:
                self.assertIsNone(figure["baseline"])
                self.assertIsNone(figure["ratio"])

    def test_unknown_option_is_a_usage_error(self):
        done = subprocess.run([PROGRAM, "--no-such-option"], capture_output=True, timeout=20)
        self.assertEqual(done.returncode, 2)
        self.assertNotEqual(done.stderr, b"")


if __name__ == "__main__":
    unittest.main()
