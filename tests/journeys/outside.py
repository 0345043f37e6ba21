"""The outside world of the journeys: a file that only grows, and that no transaction can undo."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

VARIABLE = "RIVET_JOURNEY_LEDGER"


def note(effect: str, key: str) -> None:
    """One line for one real effect. A line this short is appended whole, by any number of processes."""
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{effect} {key}\n".encode())
    finally:
        os.close(file)


def effects(path: Path) -> dict[str, Counter[str]]:
    """By effect: how often it came, with which idempotency keys."""
    found: dict[str, Counter[str]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        effect, key = line.rsplit(" ", 1)
        found.setdefault(effect, Counter())[key] += 1
    return found


def open_gate(path: Path) -> None:
    """Whoever waits at the gate of that ledger goes on, and whoever comes to it later passes."""
    _gate(path).touch()


def await_gate() -> None:
    """Wait until a test opens it."""
    while not _gate(os.environ[VARIABLE]).exists():
        time.sleep(0.02)


def _gate(ledger: str | Path) -> Path:
    return Path(f"{ledger}.open")
