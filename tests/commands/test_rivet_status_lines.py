"""``manage.py rivet_status`` and types with ``max_running``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from django_rivet import Actor, workflow
from django_rivet.models import WorkflowRun
from django_rivet.testing import isolated_actors
from tests.commands.output import status, table

pytestmark = pytest.mark.django_db


@pytest.fixture
def capped() -> Iterator[Any]:
    with isolated_actors():

        class Report(Actor):
            class Meta:
                max_running = 2

            @workflow
            def run(self, ctx): ...

        yield Report


def hold(actor: Any, until: Any) -> None:
    WorkflowRun.objects.filter(pk=actor.id).update(holder="red:7:aa", lease_until=until)


def test_those_that_wait_for_a_slot_are_in_line_and_not_overdue(capped, rivet):
    """No worker is missing: they wait for each other."""
    actors = [capped.create(str(n)) for n in range(5)]
    rivet.advance(60)
    for actor in actors[:2]:
        hold(actor, rivet.now() + timedelta(minutes=1))

    found = status()

    assert found["in_line"] == [{"type": "tests.Report", "waiting": 3, "running": 2, "max_running": 2}]
    assert found["overdue"]["count"] == 0
    assert "in line                      3   tests.Report: 2 of 2 are driven" in table()


def test_where_a_slot_is_free_and_nobody_comes_they_are_overdue(capped, rivet):
    """A worker whose lease is over holds none."""
    actors = [capped.create(str(n)) for n in range(3)]
    hold(actors[0], rivet.now() + timedelta(minutes=2))
    hold(actors[1], rivet.now() + timedelta(seconds=1))
    rivet.advance(60)

    found = status()

    assert found["in_line"] == []
    assert found["overdue"]["count"] == 2


def test_nobody_waits_where_all_are_driven(capped, rivet):
    """What is full is shown, and that nobody is kept waiting by it."""
    for key in ("one", "two"):
        hold(capped.create(key), rivet.now() + timedelta(minutes=1))

    assert status()["in_line"] == [{"type": "tests.Report", "waiting": 0, "running": 2, "max_running": 2}]
