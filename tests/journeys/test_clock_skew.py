"""Workers whose clocks are a minute and a half off, in either direction: the database's clock decides.

SQLite has no clock of its own: all its processes share a machine, and the machine's clock. There the same stories run
with clocks that are right.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection

from django_rivet.models import Actor as ActorRow
from django_rivet.models import Event, WorkflowRun
from django_rivet.testing import now
from tests.journeys.actors import PatientActor
from tests.journeys.clock_actors import WAIT_SECONDS, AlarmActor, NightActor
from tests.journeys.conftest import LEASE_SECONDS, StartWorker
from tests.journeys.outside import effects
from tests.journeys.workers import PROJECT, eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

SKEW = "RIVET_TEST_CLOCK_SKEW"


@pytest.fixture(params=[90, -90], ids=["ahead", "behind"])
def skew(request: pytest.FixtureRequest) -> str:
    return str(request.param) if connection.vendor == "postgresql" else "0"


def test_no_timer_of_a_worker_with_a_wrong_clock_is_early_or_late(
    start_worker: StartWorker, child_environment: dict[str, str], ledger: Path, skew: str
) -> None:
    """A sleep, a retry, a queue's time-out and a delayed message, and the time that is shown for one to come."""
    child_environment[SKEW] = skew
    worker = start_worker("--concurrency=2")
    night = NightActor.create("main")
    alarm = AlarmActor.create("main")

    # Less than the clock is wrong by: what would fire too late by that is not done by then.
    eventually(lambda: alarm.status == "completed", 80, "all waits are over", worker.log)
    eventually(lambda: night.status == "sleeping", 30, "the other one sleeps", worker.log)

    at = {effect: float(next(iter(times))) for effect, times in effects(ledger).items()}
    waits = [("begin", "slept"), ("tried-1", "tried-2"), ("tried-2", "gave-up"), ("sent", "read")]
    early = {pair: at[pair[1]] - at[pair[0]] for pair in waits if at[pair[1]] - at[pair[0]] < WAIT_SECONDS}
    assert not early
    assert all(len(times) == 1 for times in effects(ledger).values()), "and each went on once"
    shown = night.wake_at
    assert shown is not None
    assert timedelta(seconds=3600 - 85) < shown - now() <= timedelta(seconds=3600)


@pytest.mark.parametrize("holder", ["wrong", "right"])
def test_no_worker_with_a_wrong_clock_takes_a_living_one_s_actor(
    start_worker: StartWorker, child_environment: dict[str, str], ledger: Path, redis_url: str, skew: str, holder: str
) -> None:
    """A body that lasts longer than a lease has one owner, whichever of the two has the wrong clock."""
    skews = {"wrong": skew, "right": "0"}
    child_environment[SKEW] = skews.pop(holder)
    first = start_worker("--concurrency=1", broker=redis_url)
    actor = PatientActor.create("main")
    eventually(lambda: "begin" in effects(ledger), 60, "the long body begins", first.log)

    (child_environment[SKEW],) = skews.values()
    second = start_worker("--concurrency=1", broker=redis_url)
    eventually(lambda: second.is_ready, 60, "the other worker is there", second.log)
    eventually(lambda: actor.status == "completed", 60, "the long body ends", first.log)

    assert sum(effects(ledger)["begin"].values()) == 1
    assert actor.history()["long"].attempts == 1
    assert WorkflowRun.objects.get(pk=actor.id).epoch == 1


def test_a_dead_worker_with_a_wrong_clock_is_taken_over_after_its_lease(
    start_worker: StartWorker, child_environment: dict[str, str], ledger: Path, redis_url: str, skew: str
) -> None:
    """Its lease is neither over at once nor lasts a minute and a half longer."""
    child_environment[SKEW] = skew
    first = start_worker("--concurrency=1", broker=redis_url)
    actor = PatientActor.create("main")
    eventually(lambda: "begin" in effects(ledger), 60, "the long body begins", first.log)
    first.kill()
    run = WorkflowRun.objects.get(pk=actor.id)
    assert run.lease_until is not None
    assert run.lease_until - now() <= timedelta(seconds=LEASE_SECONDS)

    child_environment[SKEW] = "0"
    second = start_worker("--concurrency=1", broker=redis_url)

    eventually(lambda: actor.status == "completed", 60, "the other one takes it over", second.log)
    assert sum(effects(ledger)["begin"].values()) == 2


def test_a_worker_with_a_wrong_clock_forgets_no_event_too_early_or_late(
    start_worker: StartWorker, child_environment: dict[str, str], ledger: Path, skew: str
) -> None:
    """One of this moment stays and an old one goes, by the clock of the database."""
    row = ActorRow.objects.get(pk=NightActor.create("main").id)
    for seq, age in enumerate([100, 0], 1):
        Event.objects.create(actor=row, seq=seq, name="told", payload="null", created_at=now() - timedelta(seconds=age))
    child_environment[SKEW] = skew

    worker = start_worker("--concurrency=1", EVENT_RETENTION=85)

    eventually(lambda: not Event.objects.filter(seq=1).exists(), 60, "the old one is forgotten", worker.log)
    assert Event.objects.filter(seq=2).exists()


def test_the_skew_is_shown(child_environment: dict[str, str], skew: str) -> None:
    """``rivet_status`` tells by how much the machine that asks is wrong."""
    found = subprocess.run(
        [sys.executable, "manage.py", "rivet_status", "--json"],
        cwd=PROJECT,
        env={**child_environment, SKEW: skew},
        check=True,
        capture_output=True,
        text=True,
    )

    assert json.loads(found.stdout)["clock_skew_seconds"] == pytest.approx(-float(skew), abs=20)
