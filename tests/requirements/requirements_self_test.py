#!/usr/bin/env python3
"""The collector of requirement tags: what it finds, and what it refuses."""

import pathlib
import unittest

import requirements_report as report


def tagged(name, text):
    return report.tagged_tests(pathlib.PurePath("tests") / name, text)


class TagsTest(unittest.TestCase):
    def test_cpp_tests_of_every_kind(self):
        found = tagged("a.cc", """
// Why this matters.
// Requirement: 12, 7a
// Fault: A4
// Another comment.
TEST(Suite, Name_Of_It) {}

TEST(Suite, NotTagged) {}
// Requirement: 3
TEST_P(Conformance, OverTwo) {}
// Requirement: 4
TEST_F(Suite,
       OnTheNextLine) {}
""")
        self.assertEqual([each.test for each in found],
                         ["Suite.Name_Of_It", "Conformance.OverTwo", "Suite.OnTheNextLine"])
        self.assertEqual(found[0].requirements, ("12", "7a"))
        self.assertEqual(found[0].faults, ("A4",))

    def test_python_and_bash(self):
        found = tagged("b.py", "    # Requirement: 37\n    def test_it(self):\n        pass\n")
        self.assertEqual([each.test for each in found], ["b.py: test_it"])
        found = tagged("c.sh", "# Fault: B1\ncheck_it() {\n}\n")
        self.assertEqual([each.test for each in found], ["c.sh: check_it"])

    def test_tag_above_nothing_is_refused_with_its_line(self):
        for text in ("\n// Requirement: 1\n\nTEST(A, B) {}\n", "\n// Requirement: 1",
                     "\n// Requirement: 1\nint x;\n"):
            with self.assertRaisesRegex(report.TagError, r"a\.cc:2"):
                tagged("a.cc", text)

    def test_part_of_a_requirement_counts_for_it(self):
        found = [report.Tagged("T.x", ("7a", "7c", "8"), ()), report.Tagged("T.a", ("7",), ())]
        self.assertEqual(report.by_requirement(found), {"7": ["T.a", "T.x"], "8": ["T.x"]})


class CoverageTest(unittest.TestCase):
    def setUp(self):
        self.all = {number: ["T.t"] for number in report.required()}

    def test_all_covered_nothing_to_say(self):
        self.assertEqual(report.coverage_faults(self.all, []), [])

    def test_one_without_test_must_be_open(self):
        del self.all["8"]
        self.assertEqual(report.coverage_faults(self.all, []), ["requirement 8 has no test"])
        self.assertEqual(report.coverage_faults(self.all, ["8"]), [])

    def test_open_list_can_only_shrink(self):
        self.assertIn("take it off", report.coverage_faults(self.all, ["8"])[0])
        self.assertIn("nothing that must", report.coverage_faults(self.all, ["58"])[0])
        del self.all["8"]
        self.assertIn("twice", report.coverage_faults(self.all, ["8", "8"])[0])

    def test_sections_that_must_be_covered(self):
        wanted = report.required()
        self.assertIn("1", wanted)
        self.assertIn("40", wanted)
        for number in ("13", "27", "60"):  # network only; other sections
            self.assertNotIn(number, wanted)

    def test_open_list_has_comments_and_reasons(self):
        self.assertEqual(report.read_open("# why\n\n36 not built\n11\n"), ["36", "11"])


if __name__ == "__main__":
    unittest.main()
