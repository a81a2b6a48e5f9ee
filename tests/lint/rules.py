"""The rules of the source tree that a compiler does not check. Each yields findings."""

import pathlib
import re
from typing import Callable, Iterator, NamedTuple

import cpp_text

MAX_LINE_CHARS = 100
MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 600
GOOD_FILE_LINES = 400

TOP_LEVEL = {
    "CMakeLists.txt", "include", "src", "tests", "benchmarks", "examples", "cmake", "docs",
    "LICENSE", "README.md",
}  # fmt: skip

# A layer may include itself and those before it.
LAYERS = [
    "base", "config", "roce", "verbs", "softverbs", "sim", "bootstrap", "channel", "blocking",
    "message", "telemetry", "tools", "integrations",
]  # fmt: skip

# Where the program meets real time; everything else is handed the time.
COMPOSITION_ROOTS = ("src/tools/", "src/softverbs/udp_driver", "src/blocking/")
READS_ENVIRONMENT = ("src/config/", "src/tools/")
REAL_TIME_TESTS = ("tests/net/",)
LOGGING_FILE = "src/base/logging.cc"
INTEROP_HEADER = "include/braid/verbs_interop.h"


class Source(NamedTuple):
    path: str  # from the top of the tree, with slashes
    text: str

    @property
    def suffix(self) -> str:
        return pathlib.PurePosixPath(self.path).suffix

    @property
    def is_cpp(self) -> bool:
        return self.suffix in (".h", ".cc")


class Finding(NamedTuple):
    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text} [{self.rule}]"


Found = Iterator[tuple[int, str]]


def _matches(pattern: str, text: str) -> Iterator[tuple[int, re.Match]]:
    for number, line in enumerate(text.split("\n"), 1):
        if match := re.search(pattern, line):
            yield number, match


def line_length(source: Source) -> Found:
    if not source.is_cpp and source.suffix not in (".py", ".sh", ".cmake", ".txt"):
        return
    for number, line in enumerate(source.text.split("\n"), 1):
        if len(line) > MAX_LINE_CHARS:
            yield number, f"line has {len(line)} characters, more than {MAX_LINE_CHARS}"


def file_length(source: Source) -> Found:
    lines = source.text.count("\n")
    if (source.is_cpp or source.suffix in (".py", ".sh")) and lines > MAX_FILE_LINES:
        yield lines, f"file has {lines} lines, more than {MAX_FILE_LINES}"


def function_length(source: Source) -> Found:
    if not source.is_cpp:
        return
    for function in cpp_text.functions(source.text):
        if function.line_count > MAX_FUNCTION_LINES:
            yield function.first_line, (
                f"{function.name}() has {function.line_count} lines, "
                f"more than {MAX_FUNCTION_LINES}")


def pragma_once(source: Source) -> Found:
    if source.suffix == ".h":
        code = cpp_text.blank_comments(source.text).strip()
        if not code.startswith("#pragma once"):
            yield 1, "a header begins with #pragma once"


def file_suffix(source: Source) -> Found:
    if source.suffix in (".hpp", ".hh", ".hxx", ".cpp", ".cxx", ".c", ".C"):
        yield 1, "C++ files end in .h and .cc"


_INCLUDE = r'^\s*#\s*include\s+([<"])([^>"]+)[>"]'


def public_includes(source: Source) -> Found:
    if not source.path.startswith("include/"):
        return
    for line, match in _matches(_INCLUDE, cpp_text.blank_comments(source.text)):
        name = match[2]
        if name.startswith("infiniband/"):
            if source.path != INTEROP_HEADER:
                yield line, f"<{name}> belongs into {INTEROP_HEADER} only"
        elif match[1] == '"' or not re.fullmatch(r"braid/[\w/]+\.h|[a-z_]+", name):
            yield line, f"public headers include <braid/...> and standard headers, not {name}"


def layer_direction(source: Source) -> Found:
    parts = source.path.split("/")
    if parts[0] not in ("src", "include") or not source.is_cpp:
        return
    own = LAYERS.index(parts[1]) if parts[0] == "src" and parts[1] in LAYERS else -1
    if parts[0] == "src" and own < 0:
        yield 1, f"src/{parts[1]} is no layer that docs/architecture.md knows"
        return
    for line, match in _matches(_INCLUDE, cpp_text.blank_comments(source.text)):
        layer = match[2].split("/")[0]
        if match[1] == '"' and layer in LAYERS and LAYERS.index(layer) > own:
            yield line, f"{'/'.join(parts[:2])} lies below {layer} and may not include it"


def clock_reads(source: Source) -> Found:
    if not source.path.startswith(("src/", "include/")) or not source.is_cpp:
        return
    if source.path.startswith(COMPOSITION_ROOTS):
        return
    reads = (r"\b(steady|system|high_resolution|utc|tai)_clock\b|\b(clock_gettime|gettimeofday"
             r"|timespec_get|__rdtscp?|_rdtsc)\b|\btime\s*\(\s*(NULL|nullptr|0|&)|\bclock\s*\(\)")
    for line, match in _matches(reads, cpp_text.blank_comments_and_literals(source.text)):
        yield line, f"{match[0]} reads a clock outside the composition roots"


def environment_reads(source: Source) -> Found:
    if not source.path.startswith(("src/", "include/")) or not source.is_cpp:
        return
    if source.path.startswith(READS_ENVIRONMENT):
        return
    code = cpp_text.blank_comments_and_literals(source.text)
    for line, match in _matches(r"\b(secure_getenv|getenv|environ|setenv|putenv)\b", code):
        yield line, f"{match[0]} outside {' and '.join(READS_ENVIRONMENT)}"


def sleeping_tests(source: Source) -> Found:
    if not source.path.startswith("tests/") or not source.is_cpp:
        return
    if source.path.startswith(REAL_TIME_TESTS):
        return
    code = cpp_text.blank_comments_and_literals(source.text)
    for line, match in _matches(r"\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(", code):
        yield line, f"{match[1]} in a test: wait on a condition, or use virtual time"


def logging_library(source: Source) -> Found:
    if source.is_cpp and source.path != LOGGING_FILE:
        for line, _ in _matches(r"^\s*#\s*include\s+[<\"](spdlog|fmt)/", source.text):
            yield line, f"spdlog lies behind {LOGGING_FILE}"


def open_ends(source: Source) -> Found:
    # The words are put together here so that this file does not find itself.
    words = "|".join(("TO" "DO", "FIX" "ME", "X" "XX", "HA" "CK"))
    for line, match in _matches(rf"\b({words})\b(?!\(#\d+\))", source.text):
        yield line, f"{match[1]} without an issue number: write {match[1]}(#12)"


def foreign_paths(source: Source) -> Found:
    places = "|".join(("home", "work", "Users", "root"))
    for line, match in _matches(rf"(?<![\w.$}}/-])/({places})/[\w.]+", source.text):
        yield line, f"{match[0]} is a path of one machine"


RULES: list[Callable[[Source], Found]] = [
    line_length, file_length, function_length, pragma_once, file_suffix, public_includes,
    layer_direction, clock_reads, environment_reads, sleeping_tests, logging_library, open_ends,
    foreign_paths,
]  # fmt: skip


def check_source(source: Source) -> list[Finding]:
    return [
        Finding(source.path, line, rule.__name__, text)
        for rule in RULES
        for line, text in rule(source)
    ]


def check_top_level(paths: list[str]) -> list[Finding]:
    entries = sorted({path.split("/")[0] for path in paths})
    return [
        Finding(entry, 1, "top_level", "the top level holds " + ", ".join(sorted(TOP_LEVEL)))
        for entry in entries
        if entry not in TOP_LEVEL and not entry.startswith(".")
    ]


def long_files(sources: list[Source]) -> list[str]:
    return [
        f"{source.path}: {source.text.count(chr(10))} lines, better at most {GOOD_FILE_LINES}"
        for source in sources
        if source.is_cpp and source.text.count("\n") > GOOD_FILE_LINES
    ]
