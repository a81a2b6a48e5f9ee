#!/usr/bin/env python3
"""Writes docs/requirements.md from the tags above the tests, or says what is wrong.

usage: requirements_report.py SOURCE_DIR [--write]

A tag is a comment of its own, directly above a test (other comments may lie between):
  // Requirement: 8, 9      // Fault: A26      in C++
  # Requirement: 37         # Fault: B1        in Python and bash
Without --write the script fails when the document is stale, when a tag names no known number or
stands above no test, or when a requirement has no test and is not listed in open.txt, or has one
and is.
"""

import pathlib
import re
import sys
from typing import NamedTuple

from catalogue import COMPLETE_SECTIONS, FAULTS, REQUIREMENTS, SECTIONS

DOCUMENT = "docs/requirements.md"
OPEN_LIST = "tests/requirements/open.txt"
OWN_FOLDER = "requirements"

TAG = re.compile(r"^\s*(?://|#) (Requirement|Fault): (.+?)\s*$")
COMMENT = {".cc": re.compile(r"^\s*//"), ".py": re.compile(r"^\s*(#|@)"),
           ".sh": re.compile(r"^\s*#")}
TEST = {
    ".cc": re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)?"),
    ".py": re.compile(r"^\s*def (\w+)\("),
    ".sh": re.compile(r"^(\w+)\(\)"),
}


class Tagged(NamedTuple):
    """One test with what it shows."""
    test: str
    requirements: tuple[str, ...]
    faults: tuple[str, ...]


class TagError(Exception):
    """A tag that cannot be taken; the text names file and line."""


def test_name(path: pathlib.PurePath, lines: list[str], at: int) -> str:
    """The test that begins at the line, or an empty text."""
    match = TEST[path.suffix].match(lines[at])
    if not match:
        return ""
    if path.suffix != ".cc":
        return f"{path.name}: {match[1]}"
    name = match[2] or re.match(r"\s*(\w+)", lines[at + 1])[1]
    return f"{match[1]}.{name}"


def tagged_tests(path: pathlib.PurePath, text: str) -> list[Tagged]:
    found, pending, first = [], {"Requirement": [], "Fault": []}, 0
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if tag := TAG.match(line):
            first = first or at + 1
            pending[tag[1]] += [number.strip() for number in tag[2].split(",")]
            continue
        if not first or COMMENT[path.suffix].match(line):
            continue
        name = test_name(path, lines, at)
        if not name:
            raise TagError(f"{path}:{first}: this tag stands above no test")
        found.append(Tagged(name, tuple(pending["Requirement"]), tuple(pending["Fault"])))
        pending, first = {"Requirement": [], "Fault": []}, 0
    if first:
        raise TagError(f"{path}:{first}: this tag stands above no test")
    return found


def collect(root: pathlib.Path) -> list[Tagged]:
    known = {each.number for each in REQUIREMENTS}
    found = []
    for path in sorted((root / "tests").rglob("*")):
        relative = path.relative_to(root)
        if path.suffix not in TEST or OWN_FOLDER in relative.parts:
            continue
        for each in tagged_tests(relative, path.read_text(encoding="utf-8")):
            for number in each.requirements:
                if number.rstrip("abc") not in known:
                    raise TagError(f"{relative}: {each.test} names requirement {number}")
            for fault in each.faults:
                if fault not in FAULTS:
                    raise TagError(f"{relative}: {each.test} names fault {fault}")
            found.append(each)
    return found


def by_requirement(found: list[Tagged]) -> dict[str, list[str]]:
    """Tests by number; 7a counts as 7."""
    out: dict[str, list[str]] = {}
    for each in found:
        for number in sorted({number.rstrip("abc") for number in each.requirements}):
            out.setdefault(number, []).append(each.test)
    return {number: sorted(set(tests)) for number, tests in out.items()}


def by_fault(found: list[Tagged]) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for each in found:
        for fault in each.faults:
            out.setdefault(fault, []).append(each.test)
    return {fault: sorted(set(tests)) for fault, tests in out.items()}


def required() -> list[str]:
    """Numbers that must have a test, or be open."""
    return [each.number for each in REQUIREMENTS
            if each.section in COMPLETE_SECTIONS and set(each.means) & set("LUE")]


def read_open(text: str) -> list[str]:
    """Numbers of open.txt: the first word of each line that is no comment."""
    return [line.split()[0] for line in text.split("\n")
            if line.strip() and not line.startswith("#")]


def coverage_faults(tests: dict[str, list[str]], open_numbers: list[str]) -> list[str]:
    """What is wrong between the tests and the list of what is open."""
    out = []
    for number in required():
        if number not in tests and number not in open_numbers:
            out.append(f"requirement {number} has no test")
    for number in open_numbers:
        if number not in required():
            out.append(f"{OPEN_LIST}: {number} is nothing that must have a test")
        elif number in tests:
            out.append(f"{OPEN_LIST}: {number} has a test now; take it off")
    if len(set(open_numbers)) != len(open_numbers):
        out.append(f"{OPEN_LIST}: a number stands twice")
    return out


def cell(tests: list[str]) -> str:
    return "<br>".join(f"`{test}`" for test in tests) if tests else "-"


def render(found: list[Tagged]) -> str:
    tests, faults = by_requirement(found), by_fault(found)
    out = ["# Requirements and their tests", "",
           "Written by `python3 tests/requirements/requirements_report.py . --write` from the tags "
           "above the tests; a test",
           "fails when it is stale. Means: L logic alone, U the soft device, N network namespaces, "
           "X the kernel's Soft-RoCE in a",
           "guest, E an emulated ability, H hardware only. What must have a test and has none is "
           "listed in tests/requirements/open.txt.", ""]
    for section, title in SECTIONS.items():
        out += [f"## {section} {title}", "", "| number | requirement | means | tests |",
                "|---|---|---|---|"]
        for each in REQUIREMENTS:
            if each.section == section:
                out.append(f"| {each.number} | {each.name} | {', '.join(each.means)} | "
                           f"{cell(tests.get(each.number, []))} |")
        out.append("")
    out += ["## Faults seen in the field", "",
            "A: in transports and their users. B: in NCCL, NCCLX and plugins.", "",
            "| fault | symptom | tests |", "|---|---|---|"]
    out += [f"| {fault} | {name} | {cell(faults.get(fault, []))} |"
            for fault, name in FAULTS.items()]
    return "\n".join(out) + "\n"


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    try:
        found = collect(root)
    except TagError as error:
        print(error)
        return 1
    document = root / DOCUMENT
    text = render(found)
    if "--write" in sys.argv[2:]:
        document.write_text(text, encoding="utf-8")
    faults = coverage_faults(by_requirement(found),
                             read_open((root / OPEN_LIST).read_text(encoding="utf-8")))
    if not document.is_file() or document.read_text(encoding="utf-8") != text:
        faults.append(f"{DOCUMENT} is stale: python3 tests/requirements/requirements_report.py . "
                      "--write")
    for fault in faults:
        print(fault)
    covered = by_requirement(found)
    print(f"{len(covered)} of {len(REQUIREMENTS)} requirements and {len(by_fault(found))} of "
          f"{len(FAULTS)} faults have a test")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
