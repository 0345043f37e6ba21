"""``make chaos`` in small, with a fixed seed: see ``tests/chaos``."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.journeys.workers import PROJECT
from tests.services import dies_with_parent

SECONDS = 20
SEED = 1


@pytest.mark.journey
@pytest.mark.timeout(600)
def test_under_fire_nothing_is_lost_doubled_or_stuck() -> None:
    """Whatever is killed, frozen, cut off or flushed while real workers are at it, an independent ledger agrees."""
    chaos = subprocess.run(
        [sys.executable, "-m", "tests.chaos", "--seconds", str(SECONDS), "--seed", str(SEED)],
        cwd=PROJECT,
        env={**os.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        preexec_fn=dies_with_parent(),
    )

    assert chaos.returncode == 0, chaos.stdout
    assert "every promise held" in chaos.stdout
