"""What the journeys here share with those that need nothing but the wheels."""

import pytest

pytest.register_assert_rewrite("tests.journeys.orders")

from tests.journeys.conftest import ledger, start_worker  # noqa: E402, F401 - fixtures
