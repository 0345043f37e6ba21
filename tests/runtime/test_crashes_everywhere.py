"""The process dies at every commit of four workflows, before it or right after it, and nobody can tell afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from django_rivet import Actor, workflow
from django_rivet.models import Event as EventRow
from django_rivet.models import Message
from django_rivet.testing import SimulatedCrash, advance, count_commits, crash_at, drive, isolated_actors
from tests.runtime.workflows import workflows

pytestmark = pytest.mark.django_db

ENDED = ("completed", "failed", "rollback_failed", "cancelled", "diverged")
WORKFLOWS = ["Tour", "Shop", "Night", "Chain"]
FAILING = ["Tour", "Chain"]

before_or_after = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])


@pytest.fixture
def actors() -> Iterator[SimpleNamespace]:
    with isolated_actors():
        yield workflows()


def begun(actor_class: type[Actor], key: str) -> Any:
    handle = actor_class.create(key)
    if actor_class.__name__ in ("Shop", "Night"):
        for order in ("a", "b", "c"):
            handle.send("orders", order)
    return handle


def drive_to_the_end(handle: Any) -> str:
    """Moves the clock for every wait."""
    for _ in range(40):
        if drive(handle) in ENDED:
            return handle.status
        advance(5)
    raise AssertionError(f"{handle!r} does not end:\n{handle.history()}")


def outcome(handle: Any) -> dict[str, Any]:
    """All that users and operators can see, apart from times and attempts."""
    seen = handle.snapshot()
    return {
        "status": seen.status,
        "output": seen.output,
        "error": str(seen.error),
        "log": seen.state.log,
        "messages": list(Message.objects.filter(actor_id=handle.id).order_by("id").values_list("body", "status")),
        "events": list(EventRow.objects.filter(actor_id=handle.id).order_by("seq").values_list("seq", "payload")),
        "history": [(e.path, e.kind, e.status, e.rollback and e.rollback.status) for e in handle.history()],
    }


def crash_points(actor_class: type[Actor], prepare: Any = None) -> tuple[dict[str, Any], range]:
    """What an undisturbed run comes to, and the numbers of its commits, each of which is a place to die at."""
    handle = begun(actor_class, "undisturbed")
    if prepare is not None:
        prepare(handle)
    with count_commits() as commits:
        drive_to_the_end(handle)
    return outcome(handle), range(1, commits.count + 1)


def crash_once(handle: Any, n: int, after: bool) -> None:
    with crash_at(n, after) as point, suppress(SimulatedCrash):
        drive_to_the_end(handle)
    assert point.crashed, n


@before_or_after
@pytest.mark.parametrize("name", WORKFLOWS)
def test_one_crash_changes_no_outcome(actors: SimpleNamespace, name: str, after: bool) -> None:
    """State, messages, events, history and debts are those of an undisturbed run."""
    actor_class = getattr(actors, name)
    expected, points = crash_points(actor_class)

    for n in points:
        handle = begun(actor_class, f"crash {n}")
        crash_once(handle, n, after)
        drive_to_the_end(handle)

        assert outcome(handle) == expected, f"commit {n}"


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_crash_of_every_drive_changes_no_outcome(actors: SimpleNamespace, name: str) -> None:
    """As long as each gets anywhere, it does not matter that none comes to its end."""
    # The claim, perhaps the start of a step, and then certainly progress: nobody is taken for a killer of workers.
    claim_and_progress = 3
    actor_class = getattr(actors, name)
    expected, _ = crash_points(actor_class)
    handle = begun(actor_class, "crashes")

    crashes = 0
    while handle.status not in ENDED:
        assert crashes < 100, str(handle.history())
        try:
            with crash_at(claim_and_progress, after=True):
                drive(handle)
            advance(5)
        except SimulatedCrash:
            crashes += 1

    assert crashes > 3
    assert outcome(handle) == expected


@pytest.mark.parametrize("name", FAILING)
def test_a_crash_on_the_way_out_of_a_failure_changes_no_outcome(actors: SimpleNamespace, name: str) -> None:
    """After `recover()` what was undone is done again, fails again and is undone again, whatever dies."""

    def fail_and_recover(handle: Any) -> None:
        assert drive_to_the_end(handle) == "failed"
        assert handle.recover()

    actor_class = getattr(actors, name)
    expected, points = crash_points(actor_class, fail_and_recover)

    for n in points:
        handle = begun(actor_class, f"crash {n}")
        fail_and_recover(handle)
        crash_once(handle, n, after=True)
        drive_to_the_end(handle)

        assert outcome(handle) == expected, f"commit {n}"


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_cancellation_with_rollback_after_a_crash_pays_every_debt_once(actors: SimpleNamespace, name: str) -> None:
    """Wherever the worker died, nothing stays owed, and nothing is undone twice."""
    actor_class = getattr(actors, name)
    _, points = crash_points(actor_class)

    for n in points:
        handle = begun(actor_class, f"crash {n}")
        crash_once(handle, n, after=True)
        was_over = handle.status in ("completed", "cancelled")
        assert handle.cancel(rollback=True) is not was_over, f"commit {n}"
        drive_to_the_end(handle)

        assert handle.status in ("completed", "cancelled"), f"commit {n}"
        assert {e.rollback.status for e in handle.history() if e.rollback} <= {"completed", "settled"}, f"commit {n}"
        log = handle.state.log
        undone = [entry.removeprefix("undo ") for entry in log if entry.startswith("undo ")]
        assert len(undone) == len(set(undone)), f"commit {n}: {log}"


@pytest.mark.parametrize("asks", ["at once", "when the lease is over"])
def test_a_plain_cancellation_after_a_crash_leaves_no_block_half_undone(actors: SimpleNamespace, asks: str) -> None:
    """A block whose failure is on record is undone to its end, and one that has no outcome is left as it is."""

    class Stay(actors.Tour):  # type: ignore[name-defined]
        @workflow
        def run(self, ctx):
            ctx.try_block("stay", self.stay, rollback=True)
            ctx.sleep("night", 5)

        def stay(self, block):
            block.rollback_checkpoint("stay")
            block.step("parking", self.do, "parking", rollback=self.undo)
            block.step("room", self.do, "room", rollback=self.undo)
            block.step("breakfast", self.fail, "eggs")

    _, points = crash_points(Stay)

    for n in points[:-1]:
        stay = begun(Stay, f"crash {n}")
        crash_once(stay, n, after=True)
        if asks == "when the lease is over":
            advance(60)
        has_failed = any(entry.path == "stay" for entry in stay.history())

        stay.cancel()

        assert drive_to_the_end(stay) == "cancelled", f"commit {n}"
        undone = [entry for entry in stay.state.log if entry.startswith("undo")]
        assert undone == (["undo room", "undo parking"] if has_failed else []), f"commit {n}"
