"""``manage.py rivet_status``: what a person sees and a monitor is told."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from io import StringIO
from typing import Any
from unittest.mock import ANY

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from django_rivet.models import WorkflowRun
from django_rivet.store import overview
from django_rivet.store.capacity import Capacity
from django_rivet.store.records import UNREADABLE
from tests.commands.output import status, table

pytestmark = pytest.mark.django_db


# The table ---------------------------------------------------------------------------------------


def test_nothing_is_shown_where_there_is_nothing():
    """A new project reads zeros."""
    assert steady(table()) == [
        "actors                       0",
        "",
        "overdue                      0   due for longer than 5 s",
        "held                         0",
        "dead leases                  0",
        "workers                      0",
        "takeovers                    0",
        "oldest message            none",
        "clock skew   by which the database is ahead of this machine",
    ]


def test_a_person_sees_what_stands_still_and_why(shop, errand, rivet):
    """Counts, what is overdue since when, the oldest message, and what failed with its error."""
    rivet.drive(errand.create("done"))
    broken = shop.create(("tenant-1", "main"))
    broken.send("orders", {"declined": "no money"})
    rivet.drive(broken)
    broken.send("orders", {"id": "order-2"})
    shop.create("new")
    rivet.advance(90)

    assert steady(table("--types")) == [
        "actors                       3",
        "  pending                    1",
        "  completed                  1",
        "  failed                     1",
        "",
        "type          actors  pending  completed  failed",
        "tests.Errand       1        0          1       0",
        "tests.Shop         2        1          0       1",
        "",
        "overdue                      1   due for longer than 5 s",
        "                       0:01:30   tests.Shop new  pending",
        "held                         0",
        "dead leases                  0",
        "workers                      0",
        "takeovers                    0",
        "oldest message         0:01:30   tests.Shop tenant-1/main in orders",
        "clock skew   by which the database is ahead of this machine",
        "",
        "in trouble",
        "  failed           tests.Shop tenant-1/main  0:01:30 ago",
        "    CriticalError: no money",
    ]


def test_text_of_others_cannot_steer_the_terminal(shop, rivet):
    """Neither colours, nor lines of its own, nor a change of direction; and we send no colours either."""
    handle = shop.create("order\u202e1")
    handle.send("orders", {"declined": "\x1b[31mred\nactors 0"})
    rivet.drive(handle)

    shown = table()

    assert "\\x1b[31mred\\nactors 0" in shown[-1]
    assert "tests.Shop order\\u202e1" in shown[-2]
    assert all(line.isprintable() for line in shown)


def test_a_long_error_is_cut(shop, rivet):
    """The table stays a table."""
    handle = shop.create("main")
    handle.send("orders", {"declined": "x" * 5000})
    rivet.drive(handle)

    assert len(table()[-1]) < 250


# Statuses ----------------------------------------------------------------------------------------


def test_monitoring_gets_every_status_whether_or_not_an_actor_has_it(shop, errand, rivet):
    """A rule on ``statuses.failed`` never misses its key."""
    rivet.drive(errand.create("one"))
    rivet.drive(errand.create("two"))
    rivet.drive(shop.create("main"))

    found = status("--types")

    assert found["statuses"] == {**dict.fromkeys(WorkflowRun.Status.values, 0), "completed": 2, "sleeping": 1}
    assert found["types"] == {"tests.Errand": {"completed": 2}, "tests.Shop": {"sleeping": 1}}
    assert "types" not in status()


def test_all_of_it_comes_as_one_json_object():
    """With nothing there, every key is."""
    assert status() == {
        "now": ANY,
        "clock_skew_seconds": pytest.approx(0, abs=1),
        "statuses": ANY,
        "overdue": {"after_seconds": 5.0, "count": 0, "oldest_seconds": None, "oldest": []},
        "in_line": [],
        "held": 0,
        "dead_leases": 0,
        "workers": [],
        "takeovers": {"sum": 0, "max": 0},
        "oldest_message": None,
        "connections": None if connection.vendor == "sqlite" else ANY,
        "troubled": [],
    }


# Trouble -----------------------------------------------------------------------------------------


def test_what_could_not_be_given_back_comes_first(shop):
    """A person has to look at it now; the rest in the order of urgency, and nothing else is in the list."""
    for wanted in ("diverged", "failed", "cancelled", "rollback_failed", "completed", "sleeping"):
        WorkflowRun.objects.filter(pk=shop.create(wanted).id).update(status=wanted)

    assert [each["status"] for each in status()["troubled"]] == ["rollback_failed", "failed", "diverged"]


def test_ten_in_trouble_are_listed_the_latest_first(shop, rivet):
    """The table says that there are more."""
    for number in range(12):
        moment = rivet.now() - timedelta(hours=number)
        WorkflowRun.objects.filter(pk=shop.create(str(number)).id).update(status="failed", updated_at=moment)

    assert [each["key"] for each in status()["troubled"]] == [str(number) for number in range(10)]
    assert "in trouble: 10 of 12" in table()


@pytest.mark.parametrize("stored", ["null", "{", '{"name": 1}', '"\\ud800"'])
def test_an_error_that_cannot_be_read_is_shown_as_it_stands(shop, stored):
    """The command does not fail on what it is there to show."""
    WorkflowRun.objects.filter(pk=shop.create("main").id).update(status="failed", error=stored)

    assert status()["troubled"][0]["error"] == {"name": UNREADABLE, "message": stored}
    assert f"    {UNREADABLE}: {stored}" in table()


# Connections -------------------------------------------------------------------------------------


def test_the_connections_of_the_server_are_told(monkeypatch):
    """How many there are, and how many it allows. SQLite has no server."""
    if connection.vendor == "postgresql":
        found = status()["connections"]
        assert 1 <= found["used"] <= found["limit"]
    else:
        assert status()["connections"] is None
        assert not [line for line in table() if line.startswith("connections")]

    monkeypatch.setattr(overview, "capacity", lambda: Capacity(limit=97, used=12))
    assert "connections                 12   of 97 that the database server allows" in table()
    assert status()["connections"] == {"used": 12, "limit": 97}


def test_a_server_that_is_nearly_full_is_told_with_what_to_change(monkeypatch):
    """Before the next worker gets no connection."""
    monkeypatch.setattr(overview, "capacity", lambda: Capacity(limit=97, used=95))

    assert (
        "connections                 95   of 97 that the database server allows; lower --concurrency or "
        "BRANCH_THREADS, or raise max_connections"
    ) in table()


# Clock, exit code, cost --------------------------------------------------------------------------


def test_a_clock_that_is_ahead_is_told(rivet):
    """Positive where the engine's clock is ahead of this machine's."""
    rivet.advance(60)

    assert status()["clock_skew_seconds"] == pytest.approx(60, abs=2)


def test_monitoring_is_alarmed_where_something_is_overdue_for_too_long(shop, rivet):
    """Exit code 1 and a sentence, after the whole output; 0 as long as it is within the limit."""
    shop.create("main")
    rivet.advance(50)
    assert status("--fail-on-overdue", "60")["overdue"]["count"] == 1

    rivet.advance(20)
    out = StringIO()
    with pytest.raises(CommandError, match=r"due for 0:01:1\d, longer than 60 s: is a worker running") as alarm:
        call_command("rivet_status", "--json", "--fail-on-overdue", "60", stdout=out)

    assert alarm.value.returncode == 1
    assert json.loads(out.getvalue())["overdue"]["count"] == 1
    assert status()["overdue"]["count"] == 1


def test_a_limit_below_five_sweeps_is_kept(shop, rivet):
    """Who asks for two seconds gets two seconds."""
    shop.create("main")
    rivet.advance(3)

    with pytest.raises(CommandError, match="longer than 2 s"):
        status("--fail-on-overdue", "2")


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "soon"])
def test_a_limit_that_is_none_is_refused(text):
    """With the argument that was wrong."""
    with pytest.raises(CommandError, match=f"--fail-on-overdue: '{text}' is no number of seconds"):
        call_command("rivet_status", f"--fail-on-overdue={text}")


def test_a_database_that_does_not_answer_is_no_alarm_of_its_own_kind():
    """Exit code 2: whether something is overdue is not known."""

    def refuse(*args: Any) -> None:
        raise OperationalError("the server is away")

    with connection.execute_wrapper(refuse), pytest.raises(CommandError, match="the server is away") as failure:
        status("--fail-on-overdue", "60")

    assert failure.value.returncode == 2


def test_the_number_of_statements_does_not_depend_on_the_number_of_actors(shop, rivet):
    """Nor does the command write anything."""
    shop.create("first")
    few = statements()
    for number in range(30):
        handle = shop.create(str(number))
        handle.send("orders", {"declined": "no"})
        if number % 2:
            rivet.drive(handle)
    rivet.advance(60)

    assert len(statements()) == len(few) <= 7
    assert all(sql.lstrip().startswith("SELECT") for sql in few)


# Below: how it is done ---------------------------------------------------------------------------


def steady(lines: list[str]) -> list[str]:
    """Without what a slow machine or the server changes: the skew, a few seconds more than a minute and a half, and the
    server's connections.
    """
    lines = [line for line in lines if not line.startswith("connections ")]
    lines = [re.sub(r"^(clock skew) +-?[\d.]+ s", r"\1", line) for line in lines]
    return [re.sub(r"\b0:01:3\d\b", "0:01:30", line) for line in lines]


def statements() -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        status("--types")
    return [query["sql"] for query in captured]
