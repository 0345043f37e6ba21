"""RACE: random workflows with races and joins, killed and handed over at random places."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from django_rivet.testing import isolated_actors
from tests.conformance.machine import double_effects, drive_to_the_end, machine, outcome, suffer
from tests.conformance.programs import Accident, Block, accidents, races

# Shrinking a failure takes longer than a test may.
pytestmark = pytest.mark.timeout(600)

examples = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
examples_with_threads = settings(examples, max_examples=15)


def ends(program: Block, mishaps: list[Accident], later_mishaps: list[Accident]) -> list[dict[str, Any]]:
    """How a program ends that suffers these accidents, and, where it fails, others after it was recovered."""
    with isolated_actors():
        handle, actor_class, numbers = machine(program, 0)
        for accident in mishaps:
            suffer(handle, numbers, accident)
        drive_to_the_end(handle, numbers)
        found = [outcome(handle, actor_class)]
        if found[0]["status"] == "failed":
            actor_class.is_mended = True
            assert handle.recover()
            for accident in later_mishaps:
                suffer(handle, numbers, accident)
            drive_to_the_end(handle, numbers)
            found.append(outcome(handle, actor_class))
        handle.destroy(force=True)
        return found


def check_races(program: Block, mishaps: list[Accident], later_mishaps: list[Accident]) -> None:
    found = ends(program, mishaps, later_mishaps)

    assert found[0]["status"] in ("completed", "failed"), found[0]["error"]
    assert found[-1]["status"] == "completed" or "has no branches" in found[-1]["error"]
    assert all(double_effects(each["log"]) == [] for each in found)
    for path, kind, status, rollback in found[-1]["history"]:
        # A loop that an error has left, which was caught, is not entered again.
        assert status in ("completed", "failed", "cancelled") or (kind, status) == ("loop", "running"), (path, status)
        assert rollback is None or rollback[0] in ("completed", "settled"), (path, rollback)


@pytest.mark.django_db
@examples
@given(program=races, accidents=accidents, later_accidents=accidents)
def test_a_random_program_with_races_ends_and_leaves_nothing_behind(program, accidents, later_accidents):
    """Who wins may differ after an accident; nothing is done twice, under way or owed at the end."""
    check_races(program, accidents, later_accidents)


@pytest.mark.django_db(transaction=True)
@examples_with_threads
@given(program=races, accidents=accidents, later_accidents=accidents)
def test_a_random_program_with_races_ends_like_that_in_threads(program, accidents, later_accidents):
    """All branches at the same time; losers are cut off."""
    check_races(program, accidents, later_accidents)
