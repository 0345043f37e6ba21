"""Trips with a race for the hotel, in which the loser has booked two things."""

from django_rivet import CriticalError, workflow
from django_rivet.testing import advance, drive
from tests.conformance.undoable import undoable


def travels(outside, broken):
    """Trips with a flight in front of a race; ``slow`` has booked two things when ``fast`` wins after 10 seconds.

    ``broken``: the things whose handlers, or steps, fail at the moment.
    """

    class Travel(undoable(outside)):
        class Meta:
            abstract = True

        rollback_losers = True
        handler_options = {"rollback_max_retries": 0}

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.book, "flight", rollback=self.call_off)
            won, _ = ctx.race("hotel", {"slow": self.slow, "fast": self.fast}, rollback_losers=self.rollback_losers)
            ctx.step("car", self.book, f"car for {won}", rollback=self.call_off)
            ctx.step("end", self.book, "end")
            return won

        def slow(self, branch):
            for name in ("room", "parking"):
                branch.step(name, self.book, f"slow {name}", rollback=self.call_off, **self.handler_options)
            branch.sleep("wait", 3600)

        def fast(self, branch):
            branch.sleep("wait", 10)
            branch.step("room", self.book, "fast room", rollback=self.call_off)

        def book(self, thing):
            if thing in broken:
                raise CriticalError(f"no {thing}")
            return self.do(thing)

        def call_off(self, rollback, thing):
            if f"undo {thing}" in broken:
                outside.append(f"cannot undo {thing}")
                raise OSError("no answer")
            self.undo(rollback, thing)

    return Travel


BOOKED = ["do flight", "do slow room", "do slow parking", "do fast room"]


def on_the_way(travel):
    trip = travel.create("one")
    assert drive(trip) == "sleeping"
    advance(11)
    return trip
