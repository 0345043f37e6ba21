"""A project in which the quickstart was followed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.follower import Follower


@pytest.fixture(scope="session")
def finished_quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """To be copied and not to be changed."""
    follower = Follower(tmp_path_factory.mktemp("quickstart"))
    follower.follow_the_quickstart()
    return follower.folder


@pytest.fixture
def follower(finished_quickstart: Path, tmp_path: Path) -> Follower:
    """Somebody who has come to the end of the quickstart."""
    folder = tmp_path / "project"
    shutil.copytree(finished_quickstart, folder)
    return Follower(folder)
