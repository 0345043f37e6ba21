"""JOIN-16, ROLLBACK-19, SAGA-04: what branches did is undone, newest first over all of them, from records."""

from django_rivet import workflow
from django_rivet.testing import advance, drive
from tests.conformance.modes import IN_BOTH_MODES
from tests.conformance.undoable import handlers, shop, undoable, undone

pytestmark = IN_BOTH_MODES


def test_saga_04_parallel_reservations_of_which_one_fails(outside):
    """Differs on purpose from the reference: completed siblings are undone, and then what came before the join."""

    class Trip(shop(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("charge", self.charge, "deposit", rollback=self.refund)
            ctx.join(
                "reserve",
                {
                    name: lambda b, n=name: (
                        b.step("reserve", self.reserve, n, rollback=self.release),
                        b.step("confirm", self.confirm, n),
                    )
                    for name in ("flight", "bad hotel", "car")
                },
            )

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    released = outside[-4:-1]
    assert sorted(released) == [f"release reservation-{n}" for n in ("bad hotel", "car", "flight")]
    assert outside[-1] == "refund charge-deposit"
    assert trip.error.name == "JoinError"
    assert released == [f"release reservation-{path.split('/')[1]}" for path in undone(trip)[:3]]


def test_rollback_19_newest_first_over_all_branches_by_the_records(outside):
    """Differs on purpose from the reference, where none of these handlers runs. Ties there are none: each record has
    a number of its own.
    """

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("before", self.do, "before", rollback=self.undo)
            ctx.join("all", {n: lambda b, n=n: self.branch(b, n) for n in "abc"})
            ctx.step("behind", self.do, "behind", rollback=self.undo)
            ctx.step("fail", self.fail)

        def branch(self, b, name):
            for n in range(3):
                b.step(f"s{n}", self.do, f"all/{name}/s{n}", rollback=self.undo)
                b.sleep(f"nap{n}", {"a": 3, "b": 1, "c": 2}[name])

    trip = Trip.create("one")
    while drive(trip) == "sleeping":
        advance(1.01)

    order = handlers(outside)
    assert order == undone(trip)
    assert order[0] == "behind"
    assert order[-1] == "before"
    # What a clock has set apart: b was done with its last step when the others were still at their second.
    assert order.index("all/a/s2") < order.index("all/c/s2") < order.index("all/b/s2")
    assert len(order) == 11


def test_rollback_19_what_waited_and_what_failed_is_undone_as_well(outside):
    """A cancellation meets one branch that failed, one that is done, and one that sleeps."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.join("all", {"failed": self.failing, "done": self.branch, "asleep": self.sleeping})

        def branch(self, b):
            b.step("do", self.do, b.label, rollback=self.undo)

        def failing(self, b):
            self.branch(b)
            b.step("fail", self.fail)

        def sleeping(self, b):
            self.branch(b)
            b.sleep("nap", 60)
            b.step("never", self.do, "never", rollback=self.undo)

    trip = Trip.create("one")
    assert drive(trip) == "sleeping"
    trip.cancel(rollback=True)

    assert drive(trip) == "cancelled"
    assert sorted(handlers(outside)) == ["branch 'asleep'", "branch 'done'", "branch 'failed'"]
    assert "do never" not in outside


def test_join_16_a_checkpoint_in_front_of_the_join_counts_inside_its_branches(outside):
    """In inner joins, loops and blocks of theirs as well; one inside a branch does not count in its sibling."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.join("all", {"a": self.deep, "b": lambda b: b.step("do", self.do, "b", rollback=self.undo)})
            ctx.step("fail", self.fail)

        def deep(self, b):
            for turn in b.loop("turns", state=0):
                turn.join("inner", {"x": lambda c, t=turn: c.step("do", self.do, f"x{t.state}", rollback=self.undo)})
                turn.state += 1
                if turn.state == 2:
                    break
            b.try_block("block", lambda block: block.step("do", self.do, "block", rollback=self.undo))

    trip = Trip.create("one")

    assert drive(trip) == "failed"
    assert sorted(handlers(outside)) == ["b", "block", "x0", "x1"]
    assert handlers(outside).index("block") < handlers(outside).index("x1") < handlers(outside).index("x0")


def test_join_16_a_checkpoint_of_one_branch_does_not_count_in_another():
    """The step is refused before its body runs."""
    done = []

    class Trip(undoable(done)):
        @workflow
        def run(self, ctx):
            ctx.join("all", {"a": self.with_checkpoint, "b": self.without})

        def with_checkpoint(self, b):
            b.rollback_checkpoint("mine")
            b.sleep("nap", 60)

        def without(self, b):
            b.step("do", self.do, "b", rollback=self.undo)

    trip = Trip.create("one")

    assert drive(trip) == "failed"
    assert trip.error.name == "RollbackCheckpointError"
    assert done == []


def test_a_rollback_that_waits_in_the_middle_goes_on_in_the_same_order(outside):
    """Handlers over all branches, one of which has to be retried: after the restart none comes twice or too early."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.join("all", {n: lambda b, n=n: self.branch(b, n) for n in "abc"})
            ctx.step("fail", self.fail)

        def branch(self, b, name):
            for n in range(2):
                handler = self.undo_late if (name, n) == ("b", 0) else self.undo
                b.step(f"s{n}", self.do, f"all/{name}/s{n}", rollback=handler, rollback_backoff_base=10)

        def undo_late(self, rollback, output):
            if rollback.attempt < 3:
                raise OSError("busy")
            self.undo(rollback, output)

    trip = Trip.create("one")

    for _ in range(2):
        assert drive(trip) == "rolling_back"
        in_front = handlers(outside)
        assert drive(trip) == "rolling_back"
        assert handlers(outside) == in_front, "the older ones wait"
        advance(40)
    assert drive(trip) == "failed"

    assert handlers(outside) == undone(trip)
    assert len(set(handlers(outside))) == 6
    assert handlers(outside)[len(in_front)] == "all/b/s0"


def test_a_handler_of_a_branch_that_is_given_up_stops_the_rollback_and_recover_goes_on(outside):
    """Older ones of other branches are still owed."""
    working = []

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.join("all", {n: lambda b, n=n: self.branch(b, n) for n in "abc"})
            ctx.step("fail", self.fail)

        def branch(self, b, name):
            b.sleep("one after another", "abc".index(name) + 1)
            b.step("do", self.do, name, rollback=self.undo_maybe, rollback_max_retries=0)

        def undo_maybe(self, rollback, output):
            if output == "b" and not working:
                raise OSError("no")
            self.undo(rollback, output)

    trip = Trip.create("one")
    while (status := drive(trip)) == "sleeping":
        advance(1.1)

    assert status == "rollback_failed"
    assert handlers(outside) == ["c"]
    working.append(1)
    trip.recover()
    assert drive(trip) == "failed"
    assert handlers(outside) == ["c", "b", "a"]
