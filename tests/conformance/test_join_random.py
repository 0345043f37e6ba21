"""JOIN: random workflows with joins in loops, blocks and joins, killed and handed over at random places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_rivet import JoinError
from django_rivet.testing import isolated_actors
from tests.conformance.machine import Machine, double_effects, drive_to_the_end, outcome, suffer
from tests.conformance.modes import IN_BOTH_MODES
from tests.conformance.programs import (
    Accident,
    Block,
    Sleep,
    Value,
    accidents,
    any_steps,
    bodies,
    constructs,
    undoable_steps,
)

# Shrinking a failure takes longer than a test may.
pytestmark = [*IN_BOTH_MODES, pytest.mark.timeout(600)]

examples = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Join:
    branches: tuple[Block, ...]
    caught: bool = False


def joins(nodes: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    branch = st.builds(Block, bodies(nodes) | st.just(()), checkpoint=st.booleans(), raises=st.booleans())
    branches = st.lists(branch, min_size=0, max_size=3).map(tuple)
    return st.builds(Join, branches, caught=st.booleans())


def programs_of(steps: st.SearchStrategy[Any], **root: Any) -> st.SearchStrategy[Block]:
    leaves = st.one_of(
        steps,
        steps,
        st.builds(Sleep, st.sampled_from([0, 30, 60])),
        st.builds(Value, st.sampled_from(["random", "now"])),
    )
    nodes = st.recursive(joins(leaves), lambda inner: joins(inner) | constructs(inner), max_leaves=4)
    return st.builds(Block, bodies(leaves | nodes, 2), **root)


programs = programs_of(any_steps, checkpoint=st.booleans(), raises=st.booleans()) | programs_of(
    undoable_steps, checkpoint=st.just(True), raises=st.just(True)
)


class Joining(Machine):
    class Meta:
        abstract = True

    def join(self, context, name, path, node, may_undo):
        def branch_of(number, scope):
            def branch(b):
                self.perform(b, f"{path}/{number}", scope, may_undo=may_undo)
                if scope.raises and not self.is_mended:
                    raise LookupError(f"{path}/{number}")
                return len(scope.body)

            return branch

        branches = {str(n): branch_of(n, scope) for n, scope in enumerate(node.branches)}
        try:
            self.report(context, name, context.join(name, branches))
        except JoinError as error:
            if not node.caught:
                raise
            self.report(context, name, {branch: str(each) for branch, each in error.errors.items()})


keys = count()


def ends(program: Block, mishaps: list[Accident], later_mishaps: list[Accident] | None = None) -> Any:
    """How a program ends that suffers these accidents, and others after it was recovered."""
    with isolated_actors():

        class Random(Joining):
            world: dict[str, str] = {}
            faults: dict[str, int] = {}
            is_mended = False

        Random.program = program
        handle = Random.create(f"machine {next(keys)}")
        numbers: Iterator[int] = count()
        for accident in mishaps:
            suffer(handle, numbers, accident)
        drive_to_the_end(handle, numbers)
        first = in_no_order(handle, Random)
        if later_mishaps is None or first["status"] != "failed":
            return first, None
        Random.is_mended = True
        assert handle.recover()
        for accident in later_mishaps:
            suffer(handle, numbers, accident)
        drive_to_the_end(handle, numbers)
        return first, in_no_order(handle, Random)


def in_no_order(handle: Any, cls: type[Machine]) -> dict[str, Any]:
    """Which branch is first depends on the accidents; within a branch, and for what is undone, the records tell."""
    seen = outcome(handle, cls)
    assert double_effects(seen["log"]) == []
    assert len({entry.seq for entry in handle.history()}) == len(seen["history"])
    return {**seen, "log": sorted(map(str, seen["log"])), "history": sorted(seen["history"], key=str)}


@examples
@given(program=programs, accidents=accidents)
def test_join_random_programs_end_as_if_nothing_had_happened(program, accidents):
    """The same end, and each completed step took effect once."""
    expected, _ = ends(program, [])
    assert expected["status"] in ("completed", "failed"), expected["error"]

    disturbed, _ = ends(program, accidents)

    assert disturbed == expected


@examples
@given(program=programs, accidents=accidents, later_accidents=accidents)
def test_join_random_programs_that_failed_can_be_recovered(program, accidents, later_accidents):
    """Once the world is mended they complete, whatever they suffer before and after; what was undone is done again."""
    _, expected = ends(program, [], [])
    if expected is None:
        return
    assert expected["status"] == "completed", expected["error"]

    _, disturbed = ends(program, accidents, later_accidents)

    assert disturbed == expected
