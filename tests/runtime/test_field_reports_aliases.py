"""A second database alias: the engine follows the transactions of the database that holds its tables, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import current_app
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.test import override_settings

from django_rivet.models import Actor, Message
from django_rivet.runtime import bell
from django_rivet.testing import SimulatedCrash, crash_at, drive

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = "second"


class EngineElsewhere:
    """The engine's tables are on the second alias, everything else on the default one."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return SECOND if model._meta.app_label == "django_rivet" else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return (db == SECOND) == (app_label == "django_rivet")


@pytest.fixture
def second_database(tmp_path: Path) -> Iterator[None]:
    """Another database of the same kind: a file of its own, or a schema of its own."""
    settings = deepcopy(connections.databases["default"])
    if connection.vendor == "sqlite":
        settings["NAME"] = str(tmp_path / "second.sqlite3")
    else:
        settings["OPTIONS"] = {**settings["OPTIONS"], "options": f"-c search_path={SECOND}"}
        execute(f"CREATE SCHEMA {SECOND}")
    connections.databases[SECOND] = settings
    connections[SECOND].connect()  # Django's test cases refuse to open one that they have not prepared
    try:
        yield
    finally:
        connections[SECOND].close()
        del connections[SECOND]
        del connections.databases[SECOND]
        if connection.vendor == "postgresql":
            execute(f"DROP SCHEMA {SECOND} CASCADE")


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.fixture
def engine_elsewhere(second_database: None) -> Iterator[None]:
    with override_settings(DATABASE_ROUTERS=[EngineElsewhere()]):
        call_command("migrate", "django_rivet", database=SECOND, verbosity=0)
        yield


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was sent to Celery, by a broker that takes everything."""
    sent: list[str] = []
    monkeypatch.setattr(bell, "has_broker", lambda app: True)
    monkeypatch.setattr(current_app, "send_task", lambda name, args, **options: sent.append(args[0]))
    return sent


class UndoneError(Exception):
    pass


def make_a_request(shop: SimpleNamespace, alias: str, hints: list[str], *, is_undone: bool) -> None:
    """Make, send and call inside a transaction of that alias."""
    with suppress(UndoneError), transaction.atomic(using=alias):
        shop.Checkout.get_or_create("main").send("orders", {"id": "1"})
        shop.Stock.get_or_create("main").reserve("by a call")
        hints.append("the transaction is about to end")
        if is_undone:
            raise UndoneError


@pytest.mark.parametrize("is_undone", [True, False], ids=["rolled back", "committed"])
def test_where_the_engine_is_on_a_second_alias_it_follows_that_one_s_transactions(
    engine_elsewhere: None, shop: SimpleNamespace, hints: list[str], is_undone: bool
) -> None:
    """Made, sent and called with its commit, and not before; gone with its rollback, hints included."""
    make_a_request(shop, SECOND, hints, is_undone=is_undone)
    assert bell.drain(60)
    drive()

    assert hints[0] == "the transaction is about to end"
    left = (Actor.objects.count(), Message.objects.count(), len(set(hints)) > 1)
    assert left == ((0, 0, False) if is_undone else (2, 1, True))
    if not is_undone:
        assert shop.Checkout.get("main").state.completed == ["1"]
        assert shop.Stock.get("main").state.reserved == ["by a call", "1"]
    assert Actor.objects.using("default").count() == 0


@pytest.mark.parametrize("engine", ["default", SECOND])
def test_a_transaction_of_another_alias_does_not_take_anything_along(
    request: pytest.FixtureRequest, shop: SimpleNamespace, hints: list[str], engine: str
) -> None:
    """There is no commit over two databases: what was sent stays sent, is hinted at once, and is worked on."""
    request.getfixturevalue("engine_elsewhere" if engine == SECOND else "second_database")
    other = "default" if engine == SECOND else SECOND

    make_a_request(shop, other, hints, is_undone=True)
    assert bell.drain(60)
    drive()

    assert len(set(hints)) > 1
    assert shop.Checkout.get("main").state.completed == ["1"]
    assert shop.Stock.get("main").state.reserved == ["by a call", "1"]


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
def test_an_order_on_a_second_alias_survives_a_death_at_every_commit(
    engine_elsewhere: None, shop: SimpleNamespace, after: bool
) -> None:
    """Record, state and calls are one commit there as well: each order is confirmed once."""
    for n in range(1, 50):
        shop.Checkout.get_or_create("main").send("orders", {"id": f"{n}"})
        with suppress(SimulatedCrash), crash_at(n, after=after) as point:
            drive()
        drive()
        done = [str(each) for each in range(1, n + 1)]
        assert shop.Checkout.get("main").state.completed == done
        assert shop.Stock.get("main").state.reserved == done
        if not point.crashed:
            break
    assert 5 < n < 49
