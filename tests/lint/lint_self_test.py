"""Shows that each lint rule finds what it is for, and nothing one step before that."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import cpp_text
import lint_test
import rules

NEVER = "TO" "DO"


def found_rules(path: str, text: str) -> set[str]:
    return {finding.rule for finding in rules.check_source(rules.Source(path, text))}


def function_of(lines: int, signature: str = "int f(int x) {") -> str:
    return "\n".join([signature] + ["  x += 1;"] * (lines - 2) + ["}"]) + "\n"


class LimitPairs(unittest.TestCase):
    """At the limit passes, one past it fails."""

    def check_pair(self, rule: str, path: str, at_limit: str, past: str) -> None:
        self.assertNotIn(rule, found_rules(path, at_limit))
        self.assertIn(rule, found_rules(path, past))

    def test_line_length(self) -> None:
        self.check_pair("line_length", "src/base/a.cc", "//" + "x" * 98, "//" + "x" * 99)

    def test_line_length_counts_characters_not_bytes(self) -> None:
        self.assertEqual(found_rules("src/base/a.cc", "//" + "ü" * 98), set())

    def test_file_length(self) -> None:
        self.check_pair("file_length", "src/base/a.cc", "int a;\n" * 600, "int a;\n" * 601)

    def test_function_length(self) -> None:
        self.check_pair("function_length", "src/base/a.cc", function_of(70), function_of(71))

    def test_function_length_in_all_shapes(self) -> None:
        for signature in (
            "TEST(Unit, Condition_Result) {",
            "A::A(int x) noexcept : x_(x), y_{x} {",
            "A::A(int x) : y_{x}, z_{{1, 2}}, x_(x) {",
            "void B::f() const noexcept(true) {",
            "template <typename T> Result<T> B<T>::f(T x) const& noexcept {",
            "[[nodiscard]] auto f(int x) -> int {",
            "class A { int f(int x) {",
            "namespace a { namespace { bool operator<(A a, B b) {",
            "static_assert(true); int f(char c = '{') {",
        ):
            with self.subTest(signature):
                text = function_of(71, signature)
                self.assertIn("function_length", found_rules("tests/a.cc", text))

    def test_braces_in_literals_and_comments_do_not_end_a_function(self) -> None:
        for line in ('s = "}";', "c = '}';", "// }", "/* } */", 's = R"(})";', "n = 1'000;"):
            with self.subTest(line):
                text = function_of(71, "void f() {\n" + line)
                self.assertIn("function_length", found_rules("src/base/a.cc", text))

    def test_a_long_class_is_no_long_function(self) -> None:
        text = function_of(200, "class A : public B<decltype(f())> {").replace("x += 1;", "int x;")
        self.assertNotIn("function_length", found_rules("src/base/a.cc", text))

    def test_two_short_functions_are_two(self) -> None:
        text = function_of(70) + function_of(70)
        self.assertEqual([f.line_count for f in cpp_text.functions(text)], [70, 70])


class PlantedViolations(unittest.TestCase):
    def check(self, rule: str, good: tuple[str, str], bad: tuple[str, str]) -> None:
        self.assertNotIn(rule, found_rules(*good))
        self.assertIn(rule, found_rules(*bad))

    def test_pragma_once(self) -> None:
        self.check("pragma_once", ("src/base/a.h", "// Why.\n#pragma once\n"),
                   ("src/base/a.h", "#include <new>\n"))  # fmt: skip

    def test_file_suffix(self) -> None:
        self.check("file_suffix", ("src/base/a.cc", ""), ("src/base/a.cpp", ""))

    def test_verbs_in_public_headers(self) -> None:
        text = "#pragma once\n#include <infiniband/verbs.h>\n"
        self.check("public_includes", (rules.INTEROP_HEADER, text), ("include/braid/a.h", text))

    def test_private_header_in_public_headers(self) -> None:
        self.check("public_includes", ("include/braid/a.h", "#include <braid/b.h>\n#include <new>"),
                   ("include/braid/a.h", '#include "base/ring.h"\n'))  # fmt: skip

    def test_layer_direction(self) -> None:
        for lower, higher in zip(rules.LAYERS, rules.LAYERS[1:]):
            with self.subTest(lower):
                self.check(
                    "layer_direction",
                    (f"src/{higher}/a.cc", f'#include "{lower}/b.h"\n'),
                    (f"src/{lower}/a.cc", f'#include "{higher}/b.h"\n'))  # fmt: skip

    def test_public_headers_lie_below_all_layers(self) -> None:
        self.assertIn("layer_direction", found_rules("include/braid/a.h", '#include "base/b.h"\n'))

    def test_unknown_layer(self) -> None:
        self.assertIn("layer_direction", found_rules("src/attic/a.cc", ""))

    def test_clock_reads(self) -> None:
        for read in ("std::chrono::steady_clock::now();", "::clock_gettime(CLOCK_MONOTONIC, &t);",
                     "time(nullptr);", "std::time(0);", "gettimeofday(&t, nullptr);"):  # fmt: skip
            for layer in ("roce", "channel", "sim", "message"):
                with self.subTest(read=read, layer=layer):
                    self.check("clock_reads", ("src/tools/a.cc", read), (f"src/{layer}/a.cc", read))
        self.assertNotIn("clock_reads", found_rules("src/roce/a.cc", "// steady_clock\n"))

    def test_environment_reads(self) -> None:
        for read in ('getenv("A")', 'std::getenv("A")', "secure_getenv(name)"):
            with self.subTest(read):
                self.check("environment_reads", ("src/config/a.cc", read), ("src/verbs/a.cc", read))

    def test_sleeping_tests(self) -> None:
        text = "std::this_thread::sleep_for(1ms);"
        self.check("sleeping_tests", ("tests/net/a.cc", text), ("tests/roce/a.cc", text))

    def test_logging_library(self) -> None:
        text = "#include <spdlog/spdlog.h>\n"
        self.check("logging_library", (rules.LOGGING_FILE, text), ("src/roce/a.cc", text))

    def test_open_ends(self) -> None:
        self.check("open_ends", ("src/base/a.cc", f"// {NEVER}(#12): why\n"),
                   ("src/base/a.cc", f"// {NEVER}: why\n"))  # fmt: skip

    def test_foreign_paths(self) -> None:
        for place in ("home", "work", "Users", "root"):
            with self.subTest(place):
                self.check("foreign_paths", ("docs/a.md", f"net{place}/someone, a/{place}/b"),
                           ("docs/a.md", f"see /{place}/someone"))  # fmt: skip


class WholeTree(unittest.TestCase):
    """The command that ctest runs fails on a tree with one violation, and only on that."""

    def lint(self, files: dict[str, str]) -> subprocess.CompletedProcess:
        with tempfile.TemporaryDirectory() as top:
            for path, text in files.items():
                place = pathlib.Path(top, path)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
            return subprocess.run([sys.executable, lint_test.__file__, top], text=True,
                                  capture_output=True, check=False)  # fmt: skip

    def test_clean_tree_passes(self) -> None:
        done = self.lint({"src/base/a.cc": "int a;\n", "README.md": "", ".gitignore": ""})
        self.assertEqual((done.returncode, done.stdout), (0, "lint: 2 files, 0 findings\n"))

    def test_one_violation_fails_and_is_named(self) -> None:
        done = self.lint({"src/roce/a.cc": '#include "channel/b.h"\n'})
        self.assertEqual(done.returncode, 1)
        self.assertIn("src/roce/a.cc:1: src/roce lies below channel", done.stdout)

    def test_stray_top_level_entry_fails(self) -> None:
        done = self.lint({"src/base/a.cc": "", "notes.txt": ""})
        self.assertEqual(done.returncode, 1)
        self.assertIn("notes.txt:1", done.stdout)

    def test_tree_without_sources_fails(self) -> None:
        self.assertEqual(self.lint({"README.md": ""}).returncode, 1)

    def test_every_rule_has_a_test(self) -> None:
        tests = {name for case in (LimitPairs, PlantedViolations) for name in dir(case)}
        names = {rule.__name__ for rule in rules.RULES}
        names.remove("public_includes")  # two tests, by what is included
        self.assertEqual({name for name in names if f"test_{name}" not in tests}, set())


if __name__ == "__main__":
    unittest.main()
