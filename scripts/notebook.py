#!/usr/bin/env python3
"""notebook.py [--check]: writes docs/course/first_lessons.ipynb from the first three lessons, or checks that it is up to
date.

Text becomes Markdown cells, files `%%writefile` cells, commands `%%bash` cells. Commands that need a GPU are comments.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "docs"))

from commands import ON_A_GPU, commands  # noqa: E402
from page import Block, blocks  # noqa: E402

COURSE = ROOT / "docs" / "course"
LESSONS = ("1-three-reads.md", "2-one-read.md", "3-several-blocks.md")
OPENING = """\
The first three lessons of the [course](README.md) as a notebook, written by `scripts/notebook.py`. Its commands need
`tunesmith` in `PATH`; they run on the CPU."""


def code_of(block: Block) -> str:
    if block.language != "console":
        return f"%%writefile {block.title}\n{block.text}"
    lines = [command for _, command, _ in commands(block)]
    if block.title == ON_A_GPU:
        lines = ["# On a GPU:", *("# " + line for line in lines)]
    return "\n".join(["%%bash", *lines]) + "\n"


def cell(kind: str, text: str, number: int) -> dict[str, Any]:
    common = {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": text.strip("\n").splitlines(keepends=True),
    }
    return common | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def notebook() -> str:
    cells = [("markdown", OPENING)]
    for name in LESSONS:
        lines = (COURSE / name).read_text(encoding="utf-8").splitlines(keepends=True)
        begin = 0
        for block in blocks(COURSE / name):
            if block.language == "console" or block.title:
                cells.append(("markdown", "".join(lines[begin : block.line - 1])))
                cells.append(("code", code_of(block)))
                begin = block.line + len(block.lines) + 1
        cells.append(("markdown", "".join(lines[begin:])))
    made = {
        "cells": [cell(kind, text, number) for number, (kind, text) in enumerate(cells) if text.strip()],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    file = COURSE / "first_lessons.ipynb"
    if sys.argv[1:] == ["--check"]:
        if file.read_text(encoding="utf-8") == notebook():
            return 0
        print(f"{file} differs from the lessons; write it with scripts/notebook.py")
        return 1
    file.write_text(notebook(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
