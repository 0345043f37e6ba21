"""Random workflows, killed and handed over at random places, end as if nothing had happened."""

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from django_rivet.testing import isolated_actors
from tests.conformance.machine import double_effects, drive_to_the_end, machine, outcome, suffer
from tests.conformance.programs import Accident, Block, Loop, Receive, Sleep, Step, accidents, programs

# Shrinking a failure takes longer than a test may.
pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]

examples = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def ends(program: Block, sent: int, mishaps: list[Accident], later_mishaps: list[Accident] | None = None) -> Any:
    """How a program ends that suffers these accidents, and others after it was recovered."""
    with isolated_actors():
        handle, actor_class, numbers = machine(program, sent)
        for accident in mishaps:
            suffer(handle, numbers, accident)
        drive_to_the_end(handle, numbers)
        first = outcome(handle, actor_class)
        if later_mishaps is None or first["status"] != "failed":
            return first, None
        actor_class.is_mended = True
        assert handle.recover()
        for accident in later_mishaps:
            suffer(handle, numbers, accident)
        drive_to_the_end(handle, numbers)
        return first, outcome(handle, actor_class)


@examples
@given(program=programs, sent=st.integers(0, 4), accidents=accidents)
@example(program=Block((Loop((Receive(), Sleep(60), Step()), interval=1),)), sent=1, accidents=[Accident("after", 3)])
@example(
    program=Block((Loop((Receive(completes="at once"), Step(), Receive(batch=2, completes="in a step")), interval=1),)),
    sent=4,
    accidents=[Accident("before", 3)],
)
def test_a_random_program_ends_as_if_nothing_had_happened(program, sent, accidents):
    """Steps, waits, loops, blocks and rollbacks: the same end, and each completed step took effect once."""
    expected, _ = ends(program, sent, [])
    assert expected["status"] in ("completed", "failed"), expected["error"]
    assert double_effects(expected["log"]) == []

    disturbed, _ = ends(program, sent, accidents)

    assert disturbed == expected


@examples
@given(program=programs, sent=st.integers(0, 4), accidents=accidents, later_accidents=accidents)
def test_a_random_program_that_failed_can_be_recovered(program, sent, accidents, later_accidents):
    """Once the world is mended it completes, whatever it suffers before and after; what was undone is done again."""
    _, expected = ends(program, sent, [], [])
    if expected is None:
        return
    assert expected["status"] == "completed", expected["error"]
    assert double_effects(expected["log"]) == []

    _, disturbed = ends(program, sent, accidents, later_accidents)

    assert disturbed == expected
