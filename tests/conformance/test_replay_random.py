"""REPLAY: random workflows, replayed from a random step, end as those do that were not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from django_rivet import UnknownEntryError
from django_rivet.models import Message
from django_rivet.testing import isolated_actors
from tests.conformance.machine import drive_to_the_end, machine, suffer
from tests.conformance.programs import Accident, Block, Loop, Receive, Sleep, Step, Value, accidents, programs

# Shrinking a failure takes longer than a test may.
pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]

examples = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


SLEEPING = "sleeping"


def shape(handle: Any, generation: int | None = None) -> Any:
    """How it stands, and what happened. What was undone in front of the step runs again, so its place may change."""
    history = handle.history(generation)
    return handle.status, sorted((entry.path, entry.kind, entry.status) for entry in history)


def is_replayed(handle: Any, step: str) -> bool:
    """A loop whose iterations are forgotten may have nothing to begin with."""
    try:
        handle.replay_from(step)
    except UnknownEntryError as error:
        if "is forgotten" not in str(error):
            raise
        return False
    return True


@examples
@given(
    program=programs,
    sent=st.integers(0, 4),
    which=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=3),
    mishaps=accidents,
)
@example(program=Block((Loop((Receive(), Sleep(60), Step()), interval=1),)), sent=3, which=[0.9], mishaps=[])
@example(
    program=Block((Loop((Step(undoable=True), Step(undoable=True)), checkpoint=True), Step(fatal="critical"))),
    sent=0,
    which=[0.6, 0.2],
    mishaps=[Accident("before", 3)],
)
@example(
    # Loops that were opened again stood in front of what was undone before them, and ran again behind them.
    program=Block(
        (Loop((Step(undoable=True), Loop((Value("uuid"), Value("uuid"))))), Receive()), checkpoint=True, raises=True
    ),
    sent=0,
    which=[0.3],
    mishaps=[],
)
def test_replay_01_07_a_random_program_that_is_replayed_ends_as_it_had_ended(program, sent, which, mishaps):
    """Whatever it suffers on the way; no message is lost, and a failed one can be recovered, and replayed then."""
    with isolated_actors():
        handle, actor_class, numbers = machine(program, sent)
        drive_to_the_end(handle, numbers)
        expected = shape(handle)
        for generation, share in enumerate(which):
            steps = [entry.path for entry in handle.history() if entry.kind == "step"]
            if not steps:
                return
            if not is_replayed(handle, steps[int(len(steps) * share)]):
                assert shape(handle) == expected
                return
            assert shape(handle, generation) == (SLEEPING, expected[1])
            for accident in mishaps:
                suffer(handle, numbers, accident)
            drive_to_the_end(handle, numbers)
            assert shape(handle) == expected

        assert not Message.objects.filter(actor_id=handle.id, status="open").exists()
        if handle.status == "failed":
            actor_class.is_mended = True
            assert handle.recover()
            drive_to_the_end(handle, numbers)
            recovered = shape(handle)
            assert recovered[0] == "completed"
            steps = [entry.path for entry in handle.history() if entry.kind == "step"]
            if is_replayed(handle, steps[int(len(steps) * which[0])]):
                drive_to_the_end(handle, numbers)
                assert handle.status == "completed"
