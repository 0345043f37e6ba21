"""Run the blocks of a page as one program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from types import ModuleType

from django_rivet.testing import isolated_actors, reset_clock
from tests.docs.pages import Block


@contextmanager
def program() -> Iterator[ModuleType]:
    """The module that a page's blocks are run in; it and its actors are gone afterwards.

    A real one, since rollback handlers that are functions of a module are found by its name.
    """
    module = ModuleType("page")
    sys.modules[module.__name__] = module
    try:
        with isolated_actors():
            yield module
    finally:
        del sys.modules[module.__name__]
        reset_clock()


def run(block: Block, module: ModuleType) -> str:
    """What the block prints."""
    with redirect_stdout(StringIO()) as printed:
        exec(block.compiled(), vars(module))
    return printed.getvalue()
