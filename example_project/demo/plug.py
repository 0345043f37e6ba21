"""Pulling the plug: the web process asks with a file, and the demo, which has started the worker, kills it.

The two share nothing but a folder that the demo has made for this. Without a demo nobody reads it, and the web process
has no address that would write to it.
"""

import json
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import close_old_connections
from django.utils import timezone

from example_project.demo.processes import Supervised
from example_project.shop import gateway
from example_project.shop.models import GatewayRequest, Invoice

PATIENCE = 30.0
"""Seconds that an order has to get to the gateway."""

WANTED, DONE = ".wanted", ".done"


def ask(folder: Path, order_id: str) -> Path:
    """Ask for the worker's end while it charges this order; returns where the answer will be."""
    request = folder / uuid.uuid4().hex
    draft = request.with_suffix(".draft")
    draft.write_text(json.dumps(order_id))
    draft.rename(request.with_suffix(WANTED))
    return request.with_suffix(DONE)


def read_answer(answer: Path) -> dict[str, Any] | None:
    """``{"killed": pid}``, or ``{"killed": null}`` where the order was not caught in its charge; None: not yet."""
    if not answer.exists():
        return None
    told: dict[str, Any] = json.loads(answer.read_text())
    answer.unlink()
    return told


class Plug:
    """The worker's supervisor looks at it again and again."""

    def __init__(self, folder: Path, worker: Supervised) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._worker = worker

    def look(self) -> None:
        """Kill the worker if somebody has asked for it and the order is being charged now."""
        for request in sorted(self._folder.glob(f"*{WANTED}")):
            order_id = json.loads(request.read_text())
            close_old_connections()
            if self._is_charging(order_id):
                pid = self._worker.pid
                self._worker.kill()
                self._answer(request, pid)
            elif self._is_over(order_id) or time.time() - request.stat().st_mtime > PATIENCE:
                self._answer(request, None)

    # Below: how it is done ---------------------------------------------------------------------

    def _is_charging(self, order_id: str) -> bool:
        """The gateway has moved the money, and the worker waits for a slow answer."""
        waiting_since = timezone.now() - timedelta(seconds=gateway.SLOW_SECONDS)
        asked = GatewayRequest.objects.filter(order_id=order_id, asked_at__gt=waiting_since)
        return asked.exists() and self._worker.is_running and not self._is_over(order_id)

    def _is_over(self, order_id: str) -> bool:
        return Invoice.objects.filter(order_id=order_id).exists()

    def _answer(self, request: Path, killed: int | None) -> None:
        draft = request.with_suffix(".draft")
        draft.write_text(json.dumps({"killed": killed}))
        draft.rename(request.with_suffix(DONE))
        request.unlink()
