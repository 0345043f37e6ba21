"""The code blocks of the documentation's pages.

A block that begins with a comment like ``# shop/actors.py`` is that file, and with ``, at the end`` goes to its end.
One that begins with ``# python manage.py shell`` is typed there. Every other python block is run where it stands, with
the names of the blocks before it. A ``text`` block right behind a python block is what that prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import CodeType

DOCS = Path(__file__).resolve().parents[2] / "docs"

SHELL = "# python manage.py shell"


@dataclass(frozen=True)
class Block:
    """One block of code of a page."""

    page: Path
    line: int
    """Of the page, where the code begins."""
    section: str
    code: str
    output: str
    """What the page says that it prints."""

    @property
    def head(self) -> str:
        return self.code.partition("\n")[0]

    @property
    def file(self) -> str:
        """The file that the block belongs to; empty where it is run."""
        found = _FILE(self.head)
        return found[1] if found else ""

    @property
    def is_appended(self) -> bool:
        return self.head.endswith(", at the end")

    @property
    def is_typed(self) -> bool:
        return self.head == SHELL

    @property
    def is_run(self) -> bool:
        return not self.file and not self.is_typed

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(DOCS)}:{self.line}"

    def compiled(self) -> CodeType:
        """Errors in it point into the page."""
        return compile("\n" * (self.line - 1) + self.code, str(self.page), "exec")


def pages() -> list[str]:
    """All pages whose code is a program, by name. Those of the faces show requests, and fragments of other projects."""
    names = {str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")}
    return sorted(names - {"reference/http", "reference/websocket", "reference/admin"})


def text_of(page: str) -> str:
    return (DOCS / f"{page}.md").read_text()


def blocks_of(page: str) -> list[Block]:
    """Its python and ini blocks, in order."""
    fences = list(_fences(text_of(page)))
    blocks = []
    for fence, after in zip_longest(fences, fences[1:]):
        if fence.language in ("python", "ini"):
            prints = after is not None and after.language == "text" and after.begins == fence.ends + 4
            output = after.content if prints else ""
            blocks.append(Block(DOCS / f"{page}.md", fence.begins, fence.section, fence.content, output))
    return blocks


# Below: how it is done ---------------------------------------------------------------------------

_FILE = re.compile(r"# ([\w/]+\.(?:py|ini))\b").match
_FENCE = re.compile(r"( *)```(.*)").fullmatch
_SECTION = re.compile(r"##+ (.*)").fullmatch


@dataclass(frozen=True)
class _Fence:
    language: str
    section: str
    begins: int
    ends: int
    content: str


def _fences(text: str) -> Iterator[_Fence]:
    """Fenced blocks; those of a list item are indented."""
    section, begun, mark = "", 0, None
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        found = _FENCE(line)
        if mark is None:
            if heading := _SECTION(line):
                section = heading[1]
            mark, begun = found, number + 1
        elif found is not None:
            content = "".join(each.removeprefix(mark[1]) + "\n" for each in lines[begun - 1 : number - 1])
            yield _Fence(mark[2], section, begun, number - 1, content)
            mark = None
