#!/usr/bin/env python3
"""The links of all pages lead to files and headings that exist, and every page is in the site's navigation."""

from __future__ import annotations

import functools
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^()\s]+)\)")


@functools.cache
def pages() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / page for page in listed if (ROOT / page).exists()]


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def anchor(heading: str) -> str:
    """The anchor that GitHub and MkDocs make of a heading."""
    return re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()))


@functools.cache
def anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def broken(page: Path, link: str) -> bool:
    if re.match(r"https?://", link):
        return False
    path, _, fragment = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return not target.is_file() or (fragment != "" and fragment not in anchors(target))


class Links(unittest.TestCase):
    def test_links_lead_somewhere(self) -> None:
        self.assertGreater(len(pages()), 30)
        for page in pages():
            for link in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
                self.assertFalse(broken(page, link), f"{page.relative_to(ROOT)}: {link}")

    def test_broken_links_are_found(self) -> None:
        page = ROOT / "docs" / "README.md"
        self.assertFalse(broken(page, "production.md#modes"))
        for link in ("no-page.md", "production.md#no-heading", "../docs", "#no-heading"):
            self.assertTrue(broken(page, link), link)

    def test_all_pages_are_in_the_navigation(self) -> None:
        listed = set(
            re.findall(r"(\S+\.md)$", (ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
        )
        self.assertEqual(listed, {str(page.relative_to(ROOT)) for page in pages()})


if __name__ == "__main__":
    unittest.main()
