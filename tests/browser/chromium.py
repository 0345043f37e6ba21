"""The browser on this machine, and how it is started."""

from __future__ import annotations

import os
import shutil

import pytest

VARIABLE = "RIVET_TEST_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")

ARGUMENTS = [
    # Tests may run as root, where there is no sandbox, and in containers with a small /dev/shm.
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    # Nothing that asks the network for anything but the page.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]


def find_chromium() -> str:
    """A browser that is missing is a failure, never a skipped test."""
    given = os.environ.get(VARIABLE)
    if given:
        if shutil.which(given) is None:
            pytest.fail(f"{VARIABLE} is {given!r}, which is no program.")
        return given
    for name in NAMES:
        if found := shutil.which(name):
            return found
    pytest.fail(
        f"There is no Chromium on PATH (looked for {', '.join(NAMES)}). Install one with"
        f" `apt-get install -y --no-install-recommends chromium`, or set {VARIABLE} to its path."
    )
