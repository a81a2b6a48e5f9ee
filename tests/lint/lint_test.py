"""Lints the source tree: python3 lint_test.py [TOP]. Exit status 1 when something is found."""

import pathlib
import subprocess
import sys

import rules

BINARY_SUFFIXES = {".bin", ".pcap", ".pcapng", ".png", ".gz"}


def tracked_paths(top: pathlib.Path) -> list[str]:
    """What git knows or would add; of a tree without git, everything but build/ and dotfiles."""
    listing = subprocess.run(
        ["git", "-c", f"safe.directory={top}", "-C", str(top), "ls-files", "-z", "--cached",
         "--others", "--exclude-standard"],
        capture_output=True, check=False)  # fmt: skip
    if listing.returncode == 0 and listing.stdout:
        paths = listing.stdout.decode().split("\0")
        return sorted({path for path in paths if path and (top / path).is_file()})
    found = (path.relative_to(top) for path in top.rglob("*") if path.is_file())
    return sorted(
        path.as_posix()
        for path in found
        if path.parts[0] != "build" and not path.parts[0].startswith(".")
    )


def read_sources(top: pathlib.Path, paths: list[str]) -> list[rules.Source]:
    sources = []
    for path in paths:
        if pathlib.PurePosixPath(path).suffix in BINARY_SUFFIXES or "/corpus/" in path:
            continue
        sources.append(rules.Source(path, (top / path).read_text(encoding="utf-8")))
    return sources


def main(arguments: list[str]) -> int:
    top = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[2]).resolve()
    paths = tracked_paths(top)
    sources = read_sources(top, paths)
    if not any(source.path.startswith("src/") for source in sources):
        print(f"lint: {top} holds no src/: nothing was checked")
        return 1
    findings = rules.check_top_level(paths)
    for source in sources:
        findings += rules.check_source(source)
    for warning in rules.long_files(sources):
        print(f"warning: {warning}")
    for finding in findings:
        print(finding)
    print(f"lint: {len(sources)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
