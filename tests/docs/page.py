"""The blocks of code of a Markdown page."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

FENCE = re.compile(r'^```(?P<language>[a-z+-]+)?(?: +title="(?P<title>[^"]*)")?$')


@dataclasses.dataclass
class Block:
    language: str  # "" if the fence names none
    title: str  # of a file, its name
    line: int  # the line number of the fence
    lines: list[str]

    @property
    def text(self) -> str:
        return "".join(line + "\n" for line in self.lines)


def blocks(page: Path) -> list[Block]:
    """Return the blocks in their order. A fence with other attributes is an error."""
    found: list[Block] = []
    block: Block | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if block is None and line.startswith("```"):
            fence = FENCE.match(line)
            if fence is None:
                raise ValueError(f'{page}:{number}: expected ```LANGUAGE or ```LANGUAGE title="..."')
            block = Block(fence["language"] or "", fence["title"] or "", number, [])
        elif block is not None and line == "```":
            found.append(block)
            block = None
        elif block is not None:
            block.lines.append(line)
    if block is not None:
        raise ValueError(f"{page}:{block.line}: the block has no end")
    return found
