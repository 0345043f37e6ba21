"""JOIN: workers that stop or die, cancellations, pauses and run time-outs while branches run."""

import threading
import uuid
from dataclasses import replace

import pytest
from django.test import override_settings

from django_rivet import Actor, current_step, workflow
from django_rivet.models import WorkflowRun
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import in_process_worker
from django_rivet.testing import SimulatedCrash, advance, drive, now
from tests.conformance.modes import IN_BOTH_MODES, IN_THREADS, rendezvous, wait_for
from tests.conformance.undoable import undoable
from tests.runtime.limited import Hourglass, limited

pytestmark = IN_BOTH_MODES

MAX_TAKEOVERS = 3


@pytest.fixture
def meet(mode):
    """Called by three bodies: in threads none goes on before all have begun."""
    meeting = rendezvous(3)

    def meet():
        if mode == IN_THREADS:
            meeting.wait()

    return meet


def drive_by_a_worker_that_stops(actor, evicted):
    """One drive by a worker that is told to stop as soon as ``evicted()`` is true."""
    return drive_once(uuid.UUID(actor.id), replace(in_process_worker("stopping"), evicted=evicted))


def three(outside, meet, base=None, **last):
    """A join of three branches of two steps each: the first ones meet. ``last``: what happens in the one of b."""

    class Trip(base or undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("begin", self.do, "begin", rollback=self.undo)
            ctx.join("all", {n: lambda b, n=n: self.branch(b, n) for n in "abc"})
            ctx.step("after", self.do, "after")

        def branch(self, b, name):
            b.step("one", self.first, name, rollback=self.undo, atomic=False, rollback_atomic=True)
            b.step("two", self.do, f"{name}2", rollback=self.undo)

        def first(self, name):
            meet()
            if name == "b" and "when_b" in last:
                last["when_b"](self)
            return self.do(f"{name}1")

    return Trip


def test_evict_05_each_branch_stops_at_its_next_entry_and_the_pass_ends(outside, meet):
    """What their bodies did is on record; no takeover is counted, and another worker goes on where each stood."""
    actor = three(outside, meet).create("one")

    assert drive_by_a_worker_that_stops(actor, lambda: len(outside) > 3)

    first = sorted(outside)
    assert "do after" not in first
    assert actor.status == "sleeping"
    assert actor.wake_at <= now()
    run = WorkflowRun.objects.get(pk=actor.id)
    assert (run.holder, run.takeovers, run.cut_off) == (None, 0, False)
    assert sum(e.kind == "step" and e.status == "completed" for e in actor.history()) == len(first)
    assert drive(actor) == "completed"
    assert sorted(outside) == sorted(f"do {x}" for x in ("begin", "after", "a1", "a2", "b1", "b2", "c1", "c2"))


def test_evict_05_before_the_join_begins_none_of_its_branches_does(outside, meet):
    """It is an entry like others."""
    actor = three(outside, meet).create("one")

    assert drive_by_a_worker_that_stops(actor, lambda: "do begin" in outside)

    assert outside == ["do begin"]
    assert "all" not in [entry.path for entry in actor.history()]


@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_in_the_middle_of_a_join(outside, meet, rollback):
    """Bodies that run are put on record; nothing begins any more, and what they did is undone where that is asked."""
    actor_class = three(outside, meet, when_b=lambda self: type(self).get(self.key).cancel(rollback=rollback))
    actor = actor_class.create("one")

    assert drive(actor) == "cancelled"

    done = [each.removeprefix("do ") for each in outside if each.startswith("do ")]
    assert "b1" in done
    assert "b2" not in done
    assert "after" not in done
    undone = [each.removeprefix("undo ") for each in outside if each.startswith("undo ")]
    if rollback:
        assert sorted(undone) == sorted(done)
        assert undone[-1] == "begin"
        steps = [e for e in actor.history() if e.rollback]
        assert undone == [e.output for e in sorted(steps, key=lambda e: e.seq, reverse=True)]
    else:
        assert undone == []
    assert drive(actor) == "cancelled"


def test_pause_in_the_middle_of_a_join(outside, meet):
    """Nothing begins until it is resumed, and then each branch goes on where it stood."""
    actor = three(outside, meet, when_b=lambda self: type(self).get(self.key).pause()).create("one")

    assert drive(actor) == "paused"
    assert "do b1" in outside
    assert "do b2" not in outside
    before = list(outside)
    assert drive(actor) == "paused"
    assert outside == before

    actor.resume()
    assert drive(actor) == "completed"
    assert sorted(outside) == sorted(f"do {x}" for x in ("begin", "after", "a1", "a2", "b1", "b2", "c1", "c2"))


def test_an_actor_that_is_destroyed_in_the_middle_of_a_join_is_gone(outside, meet):
    """No branch can write any more, nor does one begin anything."""

    def destroy(self):
        actor_class.get(self.key).destroy(force=True)

    actor_class = three(outside, meet, when_b=destroy)
    actor = actor_class.create("one")

    drive_once(uuid.UUID(actor.id), in_process_worker("test"))

    assert not WorkflowRun.objects.filter(pk=actor.id).exists()
    assert "do b2" not in outside


# Workers that die --------------------------------------------------------------------------------


def test_a_branch_that_kills_its_worker_again_and_again_is_stopped(outside):
    """Steps that were about to run at that point end as interrupted; what was done before is undone."""

    def die(self):
        outside.append("die")
        raise SimulatedCrash

    actor = three(outside, lambda: None, when_b=die).create("one")

    with override_settings(RIVET={"MAX_TAKEOVERS": MAX_TAKEOVERS}):
        for _ in range(MAX_TAKEOVERS * 4):
            try:
                status = drive(actor)
            except SimulatedCrash:
                continue
            break

    assert status == "failed"
    assert actor.history()["all/b/one"].error.name == "StepInterruptedError"
    # Progress of the others sets the count back, and they have two steps each.
    assert MAX_TAKEOVERS <= outside.count("die") <= MAX_TAKEOVERS + 4
    assert "do after" not in outside
    owed = [e for e in actor.history() if e.rollback is not None]
    assert {e.rollback.status for e in owed} == {"completed"}
    assert {e.path for e in owed} == {e.path for e in actor.history() if e.kind == "step" and e.status == "completed"}
    undone = [each for each in outside if each.startswith("undo ")]
    assert undone == [f"undo {e.output}" for e in sorted(owed, key=lambda e: e.seq, reverse=True)]


def test_a_branch_that_gets_somewhere_does_not_save_its_sibling_for_ever(outside):
    """It sets the count back, but what it has done is done: behind it, the deaths of its sibling are counted."""
    good_has_ended = threading.Event()
    deaths = []

    class Deadly(Actor):
        @workflow
        def run(self, ctx):
            return ctx.join("all", {"a": self.good, "b": self.bad})

        def good(self, b):
            for n in range(3):
                b.step(f"s{n}", outside.append, n)
            b.step("end", good_has_ended.set)

        def bad(self, b):
            return b.try_step("die", self.die, atomic=False).failure.kind

        def die(self):
            wait_for(good_has_ended)
            deaths.append(1)
            raise SimulatedCrash

    actor = Deadly.create("one")
    with override_settings(RIVET={"MAX_TAKEOVERS": MAX_TAKEOVERS}):
        for _ in range(12):
            try:
                status = drive(actor)
            except SimulatedCrash:
                continue
            break

    assert status == "completed"
    assert actor.output["b"] == "interrupted"
    assert sorted(set(outside)) == [0, 1, 2]
    assert MAX_TAKEOVERS <= len(deaths) <= MAX_TAKEOVERS + 1


def test_a_worker_that_dies_in_one_branch_leaves_the_others_as_they_were_recorded(outside, mode):
    """A body that runs on in another branch cannot put anything on record any more."""
    died, may_end = threading.Event(), threading.Event()
    deaths = []

    class Trip(Actor):
        class State:
            log: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.join("all", {"slow": lambda b: b.step("do", self.slow), "dies": lambda b: b.step("do", self.die)})

        def slow(self):
            outside.append(current_step().attempt)
            if mode == IN_THREADS and not deaths:
                may_end.set()
                wait_for(died)
            self.state.log.append("slow")

        def die(self):
            if not deaths:
                if mode == IN_THREADS:
                    wait_for(may_end)
                deaths.append(1)
                died.set()
                raise SimulatedCrash

    trip = Trip.create("one")
    with pytest.raises(SimulatedCrash):
        drive(trip)

    assert drive(trip) == "completed"
    assert trip.state.log == ["slow"]


# Meta.run_timeout --------------------------------------------------------------------------------


def test_a_run_that_takes_too_long_in_branches_that_wait_fails_and_is_rolled_back():
    """The sleeping actor is woken for it, and what all branches owe is undone; none of them catches it."""

    def run(self, ctx):
        ctx.rollback_checkpoint("all")
        ctx.try_block(
            "block",
            lambda block: block.join("all", {"a": lambda b: branch(self, b, "a"), "b": lambda b: branch(self, b, "b")}),
        )

    def branch(self, b, name):
        try:
            b.step("do", self.do, name, rollback=self.undo)
            b.sleep("nap", 3600)
        except Exception:
            self.do("caught")

    actor = limited(run).create("one")
    assert drive(actor) == "sleeping"
    advance(61)

    assert drive(actor) == "failed"
    assert actor.error.name == "RunTimeoutError"
    assert sorted(actor.state.log) == ["a", "b", "undo a", "undo b"]


def test_recover_after_a_run_timeout_gives_the_cut_off_steps_of_all_branches_fresh_attempts(monkeypatch, mode):
    """Those that waited for a retry, and those whose bodies were running."""
    hourglass = Hourglass(monkeypatch)
    meeting = rendezvous(2)
    working = []

    def run(self, ctx):
        return ctx.join(
            "all",
            {
                "retries": lambda b: b.step("do", retried, max_retries=1, retry_backoff_base=100),
                "a": lambda b: b.step("do", cut_off, self, max_retries=0),
                "b": lambda b: b.step("do", cut_off, self, max_retries=0),
            },
        )

    def retried():
        if not working:
            raise OSError("busy")
        return current_step().attempt

    def cut_off(self):
        if not working:
            if mode == IN_THREADS:
                meeting.wait()
            hourglass.endless()
        return current_step().attempt

    actor = limited(run).create("one")
    hourglass.nearly_empty()
    assert drive(actor) == "failed"
    assert actor.error.name == "RunTimeoutError"

    working.append(1)
    hourglass.turn()
    actor.recover()
    assert drive(actor) == "completed"
    assert actor.output == {"retries": 1, "a": 1, "b": 1}
