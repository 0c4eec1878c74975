#!/usr/bin/env python3
"""commands.py [--print] TUNESMITH PAGE...: runs the commands of Markdown pages and compares what they print.

A block of code with a title is a file of this name, unless its language is `console`. In a block ```console, a line `$
COMMAND` is a command, which may continue after a backslash; the lines after it are its output. `...` stands for any
number of lines, and within a line for any characters. Times and rates that records ship with ("131.9 us", "4070 GB/s")
may differ by 10%, since kernels are tuned again. A command without output must succeed. Errors must be shown: a command
whose output has a line "tunesmith: error: ..." must fail.

Commands in blocks with the title "On a GPU" run where there is one. Elsewhere they must fail because there is no driver,
and not because of their flags; with --print, what they print is printed. All blocks of a page run in one empty folder
with a cache of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from page import Block, blocks

ON_A_GPU = "On a GPU"
NO_DRIVER = "no CUDA driver was found"
MEASURED = re.compile(r"(\d+(?:\.\d+)?)(?= (?:us|ms|GB/s|TFLOP/s)\b)")
TOLERANCE = 0.1


def commands(block: Block) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the line number, the command and the lines of output of each command of a console block."""
    command, output, number = "", [], 0
    continues = False
    for i, line in enumerate(block.lines, block.line + 1):
        if continues:
            command += line.removesuffix("\\")
        elif line.startswith("$ "):
            if command:
                yield number, command, output
            command, output, number = line.removeprefix("$ ").removesuffix("\\"), [], i
        elif command:
            output.append(line)
        else:
            raise ValueError(f"line {i}: a console block starts with `$ `")
        continues = line.endswith("\\") and not output
    if command:
        yield number, command, output


def line_matches(expected: str, line: str) -> bool:
    """Return whether a line is the expected one, but for `...` and small differences of measured values."""
    pattern = r"(\d+(?:\.\d+)?)".join(
        ".*".join(re.escape(part) for part in text.split("...")) for text in MEASURED.split(expected)[::2]
    )
    match = re.fullmatch(pattern, line.rstrip())
    if match is None:
        return False
    values = [float(value) for value in MEASURED.findall(expected)]
    return all(abs(float(got) - value) <= TOLERANCE * value for value, got in zip(values, match.groups(), strict=True))


def output_matches(expected: list[str], lines: list[str]) -> bool:
    """Return whether the lines are the expected ones, where a line `...` is any number of lines."""
    parts: list[list[str]] = [[]]
    for line in expected:
        if line.strip() == "...":
            parts.append([])
        else:
            parts[-1].append(line)

    def matches(part: list[str], at: int) -> bool:
        return 0 <= at <= len(lines) - len(part) and all(map(line_matches, part, lines[at:]))

    if len(parts) == 1:
        return len(lines) == len(expected) and matches(expected, 0)
    # The first part is at the start, the last one at the end, and each other one at its earliest place after those before.
    if not matches(parts[0], 0):
        return False
    at = len(parts[0])
    for part in parts[1:-1]:
        while at < len(lines) and not matches(part, at):
            at += 1
        if not matches(part, at):
            return False
        at += len(part)
    last = len(lines) - len(parts[-1])
    return last >= at and matches(parts[-1], last)


def first_missing(expected: list[str], lines: list[str]) -> str:
    """Return the first expected line that no line of the output is, for the message of a failure."""
    for line in expected:
        if line.strip() != "..." and not any(line_matches(line, each) for each in lines):
            return line
    return "the order of the lines"


class Session:
    """A folder in which the commands of a page run, with the tested program and this Python first in PATH."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.folder = folder
        names = ("HOME", "LANG", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "TUNESMITH_CUDA")
        self.environment = {name: os.environ[name] for name in names if name in os.environ} | {
            "PATH": f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TUNESMITH_CACHE": str(folder / "cache.db"),
        }

    def run(self, command: str) -> tuple[int, list[str]]:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, [line.rstrip() for line in done.stdout.splitlines()]


def check(page: Path, program: Path, prints: bool) -> list[str]:
    """Run the commands of a page and return what is wrong. `prints`: print what commands on a GPU print."""
    problems = []
    with tempfile.TemporaryDirectory() as name:
        session = Session(program, Path(name))
        has_gpu = NO_DRIVER not in "\n".join(session.run("tunesmith doctor")[1])
        for block in blocks(page):
            if block.language != "console":
                if block.title:
                    (session.folder / block.title).write_text(block.text, encoding="utf-8")
                continue
            for number, command, expected in commands(block):
                status, lines = session.run(command)
                problem = ""
                if prints and block.title == ON_A_GPU:
                    print(f"$ {command}", *lines, sep="\n", flush=True)
                if block.title == ON_A_GPU and not has_gpu:
                    if NO_DRIVER not in "\n".join(lines):
                        problem = f"expected the error {NO_DRIVER!r}"
                elif (status != 0) != any(line.startswith("tunesmith: error:") for line in expected):
                    problem = f"exit status {status}"
                elif expected and not output_matches(expected, lines):
                    problem = f"the output lacks {first_missing(expected, lines)!r}"
                if problem:
                    shown = "\n".join("    " + line for line in lines[:200])
                    problems.append(f"{page}:{number}: {command}\n  {problem}. Output:\n{shown}")
    return problems


def main() -> int:
    prints = sys.argv[1] == "--print"
    program, *pages = sys.argv[1 + prints :]
    problems = [problem for page in pages for problem in check(Path(page), Path(program).resolve(), prints)]
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
