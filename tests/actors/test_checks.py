"""What ``manage.py check`` says."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import Error, Warning, run_checks

from django_rivet import checks
from django_rivet.actors.actor import Actor
from django_rivet.actors.declarations import Event, action
from django_rivet.actors.registry import Registry

GOOD = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;",
}


@pytest.fixture(autouse=True)
def only_these(isolated: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The actors of installed apps have checks of their own to pass."""
    monkeypatch.setattr(isolated._layers[0], "classes", {})
    monkeypatch.setattr(isolated, "_known", None)


class SqliteConnection:
    vendor = "sqlite"

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.settings_dict = {"NAME": name, "OPTIONS": options}


def sqlite_message(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], name: str = "db.sqlite3") -> str:
    monkeypatch.setattr(checks, "connections", {"default": SqliteConnection(name, options)})
    found = checks.check_sqlite_options()
    assert [(type(each), each.id) for each in found] in ([], [(Warning, "rivet.W001")])
    return "".join(f"{each.msg} {each.hint}" for each in found)


def test_actions_named_like_attributes_of_a_handle_are_errors():
    """All of them in all actors, since each would be unreachable."""

    class Fine(Actor):
        @action
        def reserve(self): ...

    class First(Actor):
        @action
        def send(self): ...

        @action
        def created(self): ...

        @action
        def asnapshot(self): ...

    class Second(Actor):
        @action
        def cancel(self): ...

    assert checks.check_action_names() == [
        Error(
            "tests.First names actions like attributes that every handle has: asnapshot, created, send.",
            hint="Rename them: handle.<name>() would never reach the action.",
            obj=First,
            id="rivet.E001",
        ),
        Error(
            "tests.Second names actions like attributes that every handle has: cancel.",
            hint="Rename them: handle.<name>() would never reach the action.",
            obj=Second,
            id="rivet.E001",
        ),
    ]


def test_annotations_that_name_nothing_are_errors():
    """Found before the first call."""

    class Fine(Actor):
        @action
        def act(self, value: int) -> str: ...  # type: ignore[empty-body]

    class Broken(Actor):
        @action
        def act(self, value: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    [found] = checks.check_declared_types()
    assert (found.id, found.obj) == ("rivet.E002", Broken)
    assert "Broken.act cannot be resolved: name 'Nowhere' is not defined" in found.msg


def test_sqlite_with_the_right_options_is_fine(monkeypatch):
    """Those of the documentation, also written another way."""
    assert sqlite_message(monkeypatch, GOOD) == ""
    other = {"transaction_mode": "exclusive", "init_command": "pragma Journal_Mode = 'wal'"}
    assert sqlite_message(monkeypatch, other) == ""


def test_sqlite_without_them_is_a_warning_with_what_to_paste(monkeypatch):
    """Else transactions are lost to "database is locked"."""
    message = sqlite_message(monkeypatch, {"timeout": 1})

    assert message == (
        'DATABASES["default"], which holds the actors, is SQLite without transaction_mode IMMEDIATE and without '
        'journal_mode WAL and with a timeout under 5 s. Put "OPTIONS": {"transaction_mode": "IMMEDIATE", '
        '"timeout": 20, "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;"} into it.'
    )


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"transaction_mode": None}, "without transaction_mode IMMEDIATE"),
        ({"transaction_mode": "DEFERRED"}, "without transaction_mode IMMEDIATE"),
        ({"init_command": None}, "without journal_mode WAL"),
        ({"init_command": "PRAGMA journal_mode=DELETE"}, "without journal_mode WAL"),
        ({"timeout": 4.9}, "with a timeout under 5 s"),
    ],
)
def test_each_missing_option_is_named(monkeypatch, change, fault):
    """And only that one."""
    assert f"is SQLite {fault}." in sqlite_message(monkeypatch, {**GOOD, **change})


def test_a_database_in_memory_needs_no_journal(monkeypatch):
    """It cannot have that one."""
    options = {"transaction_mode": "IMMEDIATE"}
    for name in (":memory:", "file:memorydb_default?mode=memory&cache=shared"):
        assert sqlite_message(monkeypatch, options, name) == ""


def test_other_databases_need_none_of_it(monkeypatch):
    """The check is about SQLite."""
    connection = SqliteConnection("rivet", {})
    connection.vendor = "postgresql"
    monkeypatch.setattr(checks, "connections", {"default": connection})

    assert checks.check_sqlite_options() == []


def test_events_without_a_channel_layer_are_a_warning(settings):
    """They work by polling, if they are stored."""
    settings.CHANNEL_LAYERS = {}
    assert checks.check_channel_layer() == []

    class Shop(Actor):
        sold = Event()
        closed = Event(stored=False)

    [found] = checks.check_channel_layer()
    assert found.id == "rivet.W002"
    assert found.msg.startswith("Events are declared (tests.Shop.sold, tests.Shop.closed), but CHANNEL_LAYERS")
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    assert checks.check_channel_layer() == []


def test_manage_py_check_runs_them():
    """Without a database: they look at settings and classes only."""

    class Bad(Actor):
        @action
        def send(self): ...

    found = run_checks(tags=["rivet"])
    assert "rivet.E001" in [each.id for each in found]


def test_wrong_settings_are_told_all_at_once(settings: Any) -> None:
    """E003 names each key, and a near one where there is one."""
    settings.RIVET = {"LEASE_SECOND": 5, "MAX_TAKEOVERS": 0, "STEP_DEFAULTS": {"max_retry": 1}}

    [error] = checks.check_settings()

    assert error.id == "rivet.E003"
    for part in ("did you mean 'LEASE_SECONDS'?", "'MAX_TAKEOVERS'", "did you mean 'max_retries'?"):
        assert part in error.msg


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "8", None, True], ids=repr)
def test_a_number_of_threads_for_branches_that_makes_no_sense_is_refused(settings: Any, wrong: object) -> None:
    """E003: it is a whole number from 1, which means one branch after another."""
    settings.RIVET = {"BRANCH_THREADS": wrong}

    [error] = checks.check_settings()

    assert error.id == "rivet.E003"
    assert f"RIVET['BRANCH_THREADS'] must be a whole number from 1, not {wrong!r}" in error.msg


def test_a_project_without_time_zones_is_refused(settings: Any) -> None:
    """E004: due times are points in time."""
    settings.USE_TZ = False

    assert [error.id for error in checks.check_time_zones()] == ["rivet.E004"]
