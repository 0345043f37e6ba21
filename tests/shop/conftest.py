"""The gateway, asked outside of any workflow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_rivet.engine.current import CurrentStep, running_body
from example_project.shop import gateway


@pytest.fixture
def charge() -> Callable[..., str]:
    """Charge as the body of a step does that has this idempotency key."""

    def charge(order_id: str, card: str = "valid", *, key: str) -> str:
        with running_body(CurrentStep("charge", 1, key, lambda: False)):
            return gateway.charge(order_id, card)

    return charge
