"""The code blocks of the documentation's pages.

A python block that begins with a comment like ``# shop/actors.py`` is that file, and with ``, at the end`` goes to its
end. One that begins with ``# python manage.py shell`` is typed there. Every other python block is run where it stands,
with the names of the blocks before it. A ``text`` block right behind a python block is what that prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

DOCS = Path(__file__).resolve().parents[2] / "docs"


@dataclass(frozen=True)
class Block:
    """One python block of a page."""

    page: Path
    line: int
    """Of the page, where the code begins."""
    code: str
    output: str | None
    """What the page says that it prints."""

    @property
    def head(self) -> str:
        return self.code.partition("\n")[0]

    @property
    def file(self) -> str | None:
        """The file that the block belongs to; None where it is run."""
        found = _FILE(self.head)
        return found[1] if found else None

    @property
    def is_appended(self) -> bool:
        return self.head.endswith(", at the end")

    @property
    def is_typed_in_a_shell(self) -> bool:
        return self.head == "# python manage.py shell"

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(DOCS)}:{self.line}"

    def compiled(self) -> CodeType:
        """Errors in it point into the page."""
        return compile("\n" * (self.line - 1) + self.code, str(self.page), "exec")


def blocks_of(name: str) -> list[Block]:
    """The python blocks of a page, in order."""
    page = DOCS / f"{name}.md"
    fences = list(_fences(page.read_text()))
    blocks = []
    for index, (language, line, end, code) in enumerate(fences):
        if language == "python":
            after = fences[index + 1] if index + 1 < len(fences) else None
            prints = after is not None and after[0] == "text" and after[1] == end + 3
            blocks.append(Block(page, line, code, after[3] if prints and after else None))
    return blocks


# Below: how it is done ---------------------------------------------------------------------------

_FILE = re.compile(r"# ([\w/]+\.py)\b").match


def _fences(text: str) -> Iterator[tuple[str, int, int, str]]:
    """Language, first line, last line and content of each fenced block. Fences inside list items are indented."""
    language, begun, indent, lines = None, 0, "", []
    for number, line in enumerate(text.splitlines(), start=1):
        mark = re.match(r"( *)```(\w*)", line)
        if language is None and mark:
            indent, language, begun, lines = mark[1], mark[2], number + 1, []
        elif language is not None and mark:
            yield language, begun, number - 1, "".join(f"{each}\n" for each in lines)
            language = None
        elif language is not None:
            lines.append(line.removeprefix(indent))
