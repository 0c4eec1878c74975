#!/usr/bin/env python3
"""programs.py PAGE COMPILER [FLAGS...]: compiles the C++ programs of a Markdown page, with these flags after the source, and
runs them on the host executor. A program is a block ```cpp with a title, its file name; it must exit with 0."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from page import blocks


def main() -> int:
    page, compiler, *flags = sys.argv[1:]
    programs = [block for block in blocks(Path(page)) if block.language == "cpp" and block.title]
    if not programs:
        print(f"{page} has no programs")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "TUNESMITH_CACHE": f"{folder}/cache.db",
            "TUNESMITH_SYSTEM_CACHE": "",
            "TUNESMITH_MODE": "replay",
        }
        for program in programs:
            source = Path(folder) / program.title
            source.write_text(f'#line {program.line + 1} "{page}"\n{program.text}', encoding="utf-8")
            for command in (
                [compiler, "-std=c++20", source, *flags, "-o", source.with_suffix("")],
                [source.with_suffix("")],
            ):
                done = subprocess.run(command, cwd=folder, env=environment, timeout=300, check=False)
                if done.returncode != 0:
                    print(f"{page}:{program.line}: {program.title}: exit status {done.returncode}")
                    return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
