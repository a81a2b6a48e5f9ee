"""Compares README.md with what it describes: its example, commands and links."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".")
EXAMPLE = "examples/readme_example.cc"
MAX_EXAMPLE_LINES = 25
BEGIN = "// README: begin\n"
END = "// README: end\n"


def code_blocks(markdown: str, language: str) -> list[str]:
    """The contents of the fenced blocks of a language, line ends included."""
    return re.findall(rf"^```{language}\n(.*?)^```$", markdown, re.MULTILINE | re.DOTALL)


def marked(program: str) -> str:
    """What lies between the marks of a program, which it has once each."""
    _before, rest = program.split(BEGIN)
    inside, _after = rest.split(END)
    return inside


def linked_files(markdown: str) -> list[str]:
    """Targets of links that are files of this tree."""
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", markdown)
    return [target for target in targets if "://" not in target]


def scripts(markdown: str) -> list[str]:
    """Scripts that the text tells the reader to run with bash."""
    return re.findall(r"\bbash ([\w./-]+)", markdown)


class ReadmeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = (ROOT / "README.md").read_text(encoding="utf-8")

    def test_example_is_the_marked_part_of_the_program_byte_for_byte(self):
        blocks = code_blocks(self.text, "cpp")
        self.assertEqual(len(blocks), 1, "README.md has exactly one C++ block")
        self.assertEqual(blocks[0], marked((ROOT / EXAMPLE).read_text(encoding="utf-8")))

    def test_example_is_short(self):
        self.assertLessEqual(code_blocks(self.text, "cpp")[0].count("\n"), MAX_EXAMPLE_LINES)

    def test_example_is_built(self):
        cmake = (ROOT / "examples/CMakeLists.txt").read_text(encoding="utf-8")
        self.assertIn(pathlib.Path(EXAMPLE).name, cmake)

    def test_scripts_exist(self):
        found = scripts(self.text)
        for wanted in ("examples/demo.sh", "tests/run.sh", "benchmarks/run.sh"):
            self.assertIn(wanted, found)
        for script in found:
            self.assertTrue((ROOT / script).is_file(), script)

    def test_links_lead_somewhere(self):
        found = linked_files(self.text)
        self.assertIn("docs/architecture.md", found)
        for target in found:
            self.assertTrue((ROOT / target).exists(), target)


class SelfTest(unittest.TestCase):
    """What the checks above rest on finds what it is there to find."""

    def test_code_blocks_keeps_bytes_and_tells_languages_apart(self):
        text = "a\n```sh\nls\n```\n```cpp\nint a;\n\nint b;\n```\n"
        self.assertEqual(code_blocks(text, "cpp"), ["int a;\n\nint b;\n"])
        self.assertEqual(code_blocks(text, "sh"), ["ls\n"])
        self.assertEqual(code_blocks(text, "py"), [])

    def test_marked_needs_both_marks_once(self):
        self.assertEqual(marked(f"a\n{BEGIN}b\n{END}c\n"), "b\n")
        for broken in (f"a\n{BEGIN}b\n", f"a\n{END}b\n", f"{BEGIN}a\n{END}{BEGIN}b\n{END}"):
            with self.assertRaises(ValueError):
                marked(broken)

    def test_links_without_addresses_and_anchors(self):
        text = "[a](docs/a.md) [b](https://x.example/y) [c](docs/c.md#part) [d](#here)"
        self.assertEqual(linked_files(text), ["docs/a.md", "docs/c.md"])

    def test_scripts(self):
        self.assertEqual(scripts("`bash a/b.sh --x` and\n    bash c.sh\n"), ["a/b.sh", "c.sh"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
