"""The Python blocks of docs/python.md and other pages, by the heading above them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "python.md"


def blocks(page: Path = PAGE) -> dict[str, list[str]]:
    """Return the blocks under each heading of a page."""
    found: dict[str, list[str]] = {}
    heading, block = "", None
    for line in page.read_text(encoding="utf-8").splitlines():
        if block is None and line.startswith("#"):
            heading = line.lstrip("# ")
        elif line == "```python":
            block = []
        elif line == "```" and block is not None:
            found.setdefault(heading, []).append("\n".join(block))
            block = None
        elif block is not None:
            block.append(line)
    return found
