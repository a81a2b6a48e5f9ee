#!/usr/bin/env python3
"""Compares docs/configuration.md with the code: variables, keys of files, profiles, settings.

usage: config_doc_test.py SOURCE_DIR [unittest arguments]
"""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".")
VARIABLE = r"(?:BRAID|HCCL)_[A-Z0-9_]*[A-Z0-9]"


def variables_in_code(texts):
    """Names of variables: string literals that are such a name as a whole."""
    return {name for text in texts for name in re.findall(rf'"({VARIABLE})"', text)}


def keys_in_code(text):
    """Stems of the keys of hcomm.cfg: the literals of the table kStems."""
    table = re.search(r"kStems = \{(.*?)\};", text, re.DOTALL).group(1)
    return set(re.findall(r'"(\w+_)"', table))


def profiles_in_code(text):
    table = re.search(r"kProfiles = \{(.*?)\};", text, re.DOTALL).group(1)
    return set(re.findall(r'"([\w-]+)"', table))


def settings_in_test(text):
    """The settings that config_test.cc says there are."""
    names = re.search(r"EXPECT_THAT\(names,\s*ElementsAre\((.*?)\)\);", text, re.DOTALL).group(1)
    return set(re.findall(r'"(\w+)"', names))


def variables_in_doc(text):
    return set(re.findall(rf"\b({VARIABLE})\b", text))


def keys_in_doc(text):
    return set(re.findall(r"`(\w+_)<id>`", text))


def profiles_in_doc(text):
    """First cells of the table of profiles."""
    return set(re.findall(r"^\| `([a-z0-9-]+)` \|", text.split("### Profiles")[1]
                          .split("## Which")[0], re.MULTILINE))


class ConfigDocTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.doc = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
        cls.code = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
                    for folder in ("src", "include") for path in (ROOT / folder).rglob("*")
                    if path.suffix in (".h", ".cc")}

    def test_variables_both_ways(self):
        known = variables_in_code(self.code.values())
        self.assertGreater(len(known), 30)
        self.assertEqual(known, variables_in_doc(self.doc))

    def test_keys_both_ways(self):
        known = keys_in_code(self.code["src/config/hcomm_file.cc"])
        self.assertEqual(len(known), 3)
        self.assertEqual(known, keys_in_doc(self.doc))

    def test_profiles_both_ways(self):
        known = profiles_in_code(self.code["src/config/ranges.cc"])
        self.assertEqual(len(known), 5)
        self.assertEqual(known, profiles_in_doc(self.doc))

    def test_settings_are_described(self):
        test = (ROOT / "tests/config/config_test.cc").read_text(encoding="utf-8")
        settings = settings_in_test(test) - {"profile"}
        self.assertGreater(len(settings), 8)
        for setting in settings:
            self.assertIn(f"`{setting}`", self.doc)

    def test_what_is_missing_or_too_much_is_found(self):
        self.assertEqual(variables_in_code(['f("BRAID_X"); // "BRAID_Y_" HCCL_Z']), {"BRAID_X"})
        self.assertEqual(variables_in_doc("`BRAID_X`, HCCL_Y and BRAID_"), {"BRAID_X", "HCCL_Y"})
        self.assertNotEqual(variables_in_code(['"BRAID_NEW"']) | variables_in_doc(self.doc),
                            variables_in_doc(self.doc))


if __name__ == "__main__":
    unittest.main()
