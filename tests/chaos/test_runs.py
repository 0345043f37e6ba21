"""Whether a body that ran again had a cause: what the verdict on non-atomic effects rests on."""

from __future__ import annotations

from tests.chaos.crew import Hit
from tests.chaos.ledger import Line
from tests.chaos.runs import Causes, runs_of

CHARGE = "order:1/charge"


def line(what: str, at: float, pid: int = 10, *, body: str = CHARGE, session: int = 0, since: float = 0) -> Line:
    is_stall = what == "stall"
    key = "" if is_stall else "key"
    return Line(what, at, pid, pid // 10, pid, "" if is_stall else body, key, 1, session, since)


def unexplained(lines: list[Line], *hits: Hit) -> int:
    return len(Causes(hits, lines).unexplained(runs_of(lines)[CHARGE, "key"]))


def test_a_body_that_runs_again_for_no_reason_is_found() -> None:
    """Neither that it ended well, nor that it broke, is a reason."""
    for end in ("end", "broken"):
        assert unexplained([line("begin", 1), line(end, 2), line("begin", 3, 20), line("end", 4, 20)]) == 1


def test_a_failure_that_was_asked_for_is_a_reason() -> None:
    """One for one."""
    again = [line("begin", 1), line("planned", 2), line("begin", 3), line("end", 4)]
    assert unexplained(again) == 0
    assert unexplained([*again, line("begin", 5)]) == 1


def test_only_a_blow_to_the_process_that_ran_it_is_a_reason() -> None:
    """At the right time, and to it or to its whole group."""
    lines = [line("begin", 1), line("begin", 5, 20)]
    assert unexplained(lines, Hit("kill", 2, 2, group=1, pid=10)) == 0
    assert unexplained(lines, Hit("kill", 2, 2, group=1)) == 0
    assert unexplained(lines, Hit("kill", 2, 2, group=1, pid=11)) == 1
    assert unexplained(lines, Hit("kill", 2, 2, group=2)) == 1
    assert unexplained(lines, Hit("kill", 0.5, 0.6, group=1)) == 1
    assert unexplained(lines, Hit("kill", 6, 6, group=1)) == 1


def test_a_freeze_that_began_before_the_body_counts_while_it_lasts() -> None:
    """And not any more once it is over, if the process has noticed that it was away."""
    lines = [line("begin", 3), line("end", 4), line("begin", 9, 20)]
    assert unexplained(lines, Hit("freeze", 2, 3.5, group=1)) == 0
    thawed = [line("begin", 2.5, body="order:0/charge"), *lines]
    assert unexplained(thawed, Hit("freeze", 1, 2, group=1)) == 1


def test_a_session_that_was_ended_before_the_body_is_missed_after_it() -> None:
    """The body does not know that its thread's session is gone, and its record cannot be written."""
    cut = Hit("cut", 0.5, 0.6, group=1, pid=10, session=77)
    assert unexplained([line("begin", 1, session=77), line("end", 2), line("begin", 5, 20)], cut) == 0
    assert unexplained([line("begin", 1, session=78), line("end", 2), line("begin", 5, 20)], cut) == 1


def test_what_a_frozen_thread_does_first_when_it_thaws_is_excused() -> None:
    """It cannot know that another one has done it meanwhile."""
    lines = [line("begin", 1, 20), line("end", 2, 20), line("begin", 9, 10)]
    assert unexplained(lines, Hit("freeze", 0.5, 8, group=1)) == 0
    assert unexplained(lines, Hit("freeze", 0.5, 8, group=3)) == 1


def test_a_machine_that_gives_a_process_no_time_is_a_reason() -> None:
    """The process has noticed it, and put it on record."""
    lines = [line("begin", 1), line("stall", 7, since=2), line("end", 8), line("begin", 6, 20)]
    assert unexplained(sorted(lines, key=lambda each: each.at)) == 0
