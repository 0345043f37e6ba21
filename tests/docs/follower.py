"""Somebody who does what a page says, to the letter, in a Django project of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from django.core.management import call_command

from tests.docs.pages import Block, blocks_of
from tests.services import dies_with_parent

LATER = "PostgreSQL and Redis"
"""The section of the quickstart that comes when everything else works."""


class Follower:
    """A folder with a project in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def follow_the_quickstart(self) -> None:
        """From `startproject` to the tables, all but the section about PostgreSQL and Redis."""
        call_command("startproject", "mysite", str(self.folder))
        shop = self.folder / "shop"
        shop.mkdir()
        call_command("startapp", "shop", str(shop))
        self.paste(block for block in blocks_of("quickstart") if block.file and block.section != LATER)
        self.manage("makemigrations", "shop")
        self.manage("migrate")

    def paste(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            path = self.folder / block.file
            path.parent.mkdir(exist_ok=True)
            keeps = block.is_appended or block.head.startswith("# mysite/settings.py")
            path.write_text((path.read_text() if keeps else "") + "\n" + block.code)

    def manage(self, *arguments: str, typed: str | None = None, **environment: str) -> str:
        """What ``manage.py`` prints; ``typed`` is entered there."""
        return self.run("manage.py", *arguments, typed=typed, **environment)

    def run(self, *arguments: str, typed: str | None = None, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**_environment(), **environment},
            input=typed,
            stdin=subprocess.DEVNULL if typed is None else None,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, f"{arguments} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, *arguments: str, log: Path, **environment: str) -> subprocess.Popen[bytes]:
        """``manage.py``, in the background and in a process group of its own."""
        with log.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "manage.py", *arguments],
                cwd=self.folder,
                env={**_environment(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=dies_with_parent(),
                start_new_session=True,
            )


# Below: how it is done ---------------------------------------------------------------------------

_OURS = ("DJANGO_", "RIVET_", "PYTEST_", "DATABASE_", "REDIS_", "CELERY_")


def _environment() -> dict[str, str]:
    """Without what leads to this project and its servers."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
