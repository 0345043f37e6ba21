"""Tracebacks as operators want them: the project's own frames first."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from django.utils.translation import ngettext

import django_rivet
from django_rivet.admin.text import visible


@dataclass(frozen=True, slots=True)
class Trace:
    """A traceback that is safe to show."""

    own: str
    """Without the frames of libraries; what is said between frames stays."""
    whole: str = ""
    """All of it, where something was left out of ``own``."""
    left_out: int = 0

    def __bool__(self) -> bool:
        return bool(self.own)

    @property
    def summary(self) -> str:
        words = ngettext("With %(count)d frame of libraries", "With %(count)d frames of libraries", self.left_out)
        return words % {"count": self.left_out}


def read_trace(stack: str) -> Trace:
    """A stored traceback. What is none, or was cut at its beginning, stays as it is."""
    kept: list[str] = []
    left_out = 0
    margin = ""
    skipping = False
    for line in stack.split("\n"):
        frame = _FRAME.match(line)
        if frame is not None:
            margin = frame["margin"]
            skipping = _is_library(frame["file"])
            left_out += skipping
        elif skipping and not line.startswith((f"{margin}    ", f"{margin}  [")):
            skipping = False
        if not skipping:
            kept.append(line)
    whole = visible(stack)
    return Trace(visible("\n".join(kept)), whole, left_out) if left_out else Trace(whole)


# Below: how it is done ---------------------------------------------------------------------------

# The margin is that of an exception inside a group.
_FRAME = re.compile(r'(?P<margin>[ |+-]*?)  File "(?P<file>[^"]*)", line \d+')

# The worker that met the error may live on another machine than the one that shows it.
_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python3\.\d+|Lib)[/\\]|<frozen ")

_OURS = str(Path(django_rivet.__file__).parent) + os.sep


def _is_library(file: str) -> bool:
    return file.startswith(_OURS) or _LIBRARY.search(file) is not None
