"""The threads of branches: who gets one, and when."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from django_rivet import Actor, workflow
from django_rivet.runtime.branches import BranchThreads
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def actors() -> Iterator[None]:
    with isolated_actors():
        yield


def test_a_branch_that_has_ended_makes_room_for_the_next_at_once(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told of its end before its thread is free, the join would wait for a whole other branch."""
    settings.RIVET = {"BRANCH_THREADS": 2}
    is_idle = BranchThreads.is_idle

    def is_idle_late(*args: Any) -> None:
        time.sleep(0.3)
        is_idle(*args)

    monkeypatch.setattr(BranchThreads, "is_idle", is_idle_late)
    third_has_begun = threading.Event()

    class Three(Actor):
        @workflow
        def run(self, ctx):
            return ctx.join(
                "three",
                {
                    "long": lambda branch: branch.step("wait", third_has_begun.wait, 30, atomic=False, timeout=0),
                    "short": lambda branch: branch.step("pass", str, "passed", atomic=False),
                    "third": lambda branch: branch.step("begin", third_has_begun.set, atomic=False),
                },
            )

    three = Three.create("one")

    assert drive(three) == "completed"
    assert three.output["long"] is True


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_joins_in_joins_come_to_an_end_with_however_few_threads(settings: Any, threads: int) -> None:
    """Where none is free, and nothing of a join runs, its next branch runs in the thread that waits for it."""
    settings.RIVET = {"BRANCH_THREADS": threads}

    class Tree(Actor):
        @workflow
        def run(self, ctx):
            return self.grow(ctx, 3)

        def grow(self, context, depth):
            if not depth:
                return context.step("leaf", lambda: 1, atomic=False)
            return sum(
                context.join("join", {name: lambda branch: self.grow(branch, depth - 1) for name in "abc"}).values()
            )

    tree = Tree.create("one")

    assert drive(tree) == "completed"
    assert tree.output == 27


def test_no_thread_is_left_when_a_test_has_driven() -> None:
    """The test that comes next may have another database, and this one's could not be dropped."""

    class Three(Actor):
        @workflow
        def run(self, ctx):
            return ctx.join("three", {name: lambda branch: branch.step("go", lambda: 1) for name in "abc"})

    assert drive(Three.create("one")) == "completed"

    assert not [thread for thread in threading.enumerate() if thread.name == "rivet-branch" and thread.is_alive()]
