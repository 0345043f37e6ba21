"""The reference lists what there is: whoever adds something, or takes it away, is told here to say so."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from django.core.management import get_commands
from django.dispatch import Signal

import django_rivet
from django_rivet import checks, exceptions, signals
from django_rivet.actors.declarations import Event, Queue
from django_rivet.actors.key import key_to_url, normalize_key
from django_rivet.actors.meta import ActorMeta
from django_rivet.conf import RivetSettings
from django_rivet.engine.context import Context
from django_rivet.engine.current import CurrentStep
from django_rivet.engine.entries import Failure, Kind, UndoStatus
from django_rivet.engine.events import RollbackFailed, StepFailed
from django_rivet.engine.mailbox import Mailbox
from django_rivet.engine.options import StepOptions
from django_rivet.engine.rollback import Rollback
from django_rivet.engine.scoped import Scoped
from django_rivet.management.commands.rivet_worker import Command
from django_rivet.models import WorkflowRun
from django_rivet.runtime.answers import STATUS
from django_rivet.runtime.handles import Handle
from django_rivet.runtime.history_view import HistoryEntry, RollbackRecord
from tests.docs.pages import DOCS, text_of

PACKAGE = Path(django_rivet.__file__).parent
ERRORS = {
    each for each in vars(exceptions).values() if isinstance(each, type) and issubclass(each, exceptions.RivetError)
}


def rows(page: str) -> Iterator[list[str]]:
    """The cells of all tables of a page."""
    for line in text_of(page).splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line[1:-1].split("|")]


def in_code(text: str) -> str:
    return text.strip().strip("`")


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def not_yet(page: str) -> str:
    """What the page says is still to come."""
    return text_of(page).partition("## Not yet")[2]


# Settings and commands ---------------------------------------------------------------------------


def test_settings_are_listed_in_the_order_of_conf_with_their_defaults() -> None:
    """The page reads like the module."""
    listed = re.findall(r"^`([A-Z_]+)` = `(.+)`$", text_of("reference/settings"), re.MULTILINE)
    settings = RivetSettings()

    assert [(name, eval(default)) for name, default in listed] == [
        (field.name, getattr(settings, field.name)) for field in dataclasses.fields(settings)
    ]


def test_every_system_check_is_listed() -> None:
    """Whoever gets an id in a terminal finds it here."""
    ids = set(re.findall(r"rivet\.[EW]\d{3}", inspect.getsource(checks)))

    assert {in_code(cells[0]) for cells in rows("reference/settings") if "rivet." in cells[0]} == ids


def test_every_command_and_every_option_of_the_worker_is_listed() -> None:
    """And what is not there yet is not there."""
    commands = {name for name, app in get_commands().items() if app == "django_rivet"}
    parser = Command().create_parser("manage.py", "rivet_worker")
    own = [
        action for action in parser._actions if action.dest in ("concurrency", "pool", "queues", "hostname", "loglevel")
    ]
    listed = {in_code(each) for cells in rows("reference/commands") for each in cells[0].split(", ")}

    assert commands == set(re.findall(r"^## `(\w+)`$", text_of("reference/commands"), re.MULTILINE))
    assert {option for action in own for option in action.option_strings} <= listed
    assert not commands & set(re.findall(r"rivet_\w+", not_yet("reference/commands")))


# Errors ------------------------------------------------------------------------------------------


def test_every_error_is_listed_with_its_code_and_its_status() -> None:
    """One row for each."""
    listed = {in_code(cells[0]): cells for cells in rows("reference/errors") if cells[0].startswith("`")}

    assert set(listed) == {error.__name__ for error in ERRORS}
    for error in ERRORS:
        _, code, status, _ = listed[error.__name__]
        assert in_code(code.partition(",")[0]) == error.code, error
        expected = 400 if error is exceptions.UserError else STATUS.get(error, "")
        assert status.partition(",")[0] == str(expected), error


def test_every_error_can_be_imported_from_the_front_door() -> None:
    """As the page says."""
    assert [error.__name__ for error in ERRORS if not hasattr(django_rivet, error.__name__)] == []
    assert [
        name for name in re.findall(r"`(\w+Error)`", not_yet("reference/errors")) if hasattr(django_rivet, name)
    ] == []


# Workflows and actors ----------------------------------------------------------------------------


def test_every_option_of_a_step_is_listed_with_its_default() -> None:
    """In the order of the class."""
    names = [field.name for field in dataclasses.fields(StepOptions)]
    listed = [
        (in_code(cells[0]), in_code(cells[1])) for cells in rows("reference/workflow") if in_code(cells[0]) in names
    ]
    defaults = StepOptions()

    assert [(name, eval(default)) for name, default in listed] == [(name, getattr(defaults, name)) for name in names]


def test_every_verb_is_described_and_no_other() -> None:
    """What a context has beside them is the engine's own."""
    text = text_of("reference/workflow")
    verbs = {f"ctx.{name}" for name in public(Context) - public(Scoped)} | {"ctx.iteration", "ctx.state"}
    verbs |= {f"ctx.queue.{name}" for name in public(Mailbox) - {"walk"}}

    assert [verb for verb in verbs if f"`{verb}" not in text] == []
    coming = re.findall(r"`(ctx\.[\w.]+)`", not_yet("reference/workflow"))
    assert coming
    assert verbs & set(coming) == set()


@pytest.mark.parametrize("verb", ["step", "try_step", "try_block", "loop", "rollback_checkpoint"])
def test_the_signature_of_a_verb_is_that_of_the_code(verb: str) -> None:
    """Its options stand in the heading, with their defaults."""
    headings = re.findall(rf"^## `ctx\.{verb}\((.*?)\)`", text_of("reference/workflow"), re.MULTILINE)

    for name, parameter in inspect.signature(getattr(Context, verb)).parameters.items():
        if parameter.default is inspect.Parameter.empty or (verb, name) == ("loop", "fn"):
            continue
        default = repr(parameter.default).replace("'", '"')
        assert all(f"{name}={default}" in heading for heading in headings), (verb, name)
    assert headings


@pytest.mark.parametrize(("page", "cls"), [("reference/workflow", CurrentStep), ("reference/workflow", Failure)])
def test_every_field_of_what_users_get_is_named(page: str, cls: type) -> None:
    """So that nobody has to look into the code for it."""
    names = [field.name for field in dataclasses.fields(cls)]

    assert [name for name in names if f"`{name}`" not in text_of(page) and f"`{name}()`" not in text_of(page)] == []


def test_every_option_of_a_declaration_is_listed_with_its_default() -> None:
    """Of ``Meta``, of queues and of events."""
    text = text_of("reference/actors")
    listed = {in_code(cells[0]): in_code(cells[1]) for cells in rows("reference/actors") if len(cells) == 3}

    assert {
        name: eval(default) for name, default in listed.items() if name not in ("option", "---")
    } == dataclasses.asdict(ActorMeta())
    for cls in (Queue, Event):
        options = list(inspect.signature(cls).parameters.values())
        heading = ", ".join(f"{each.name}={'Any' if each.name.endswith('_type') else each.default}" for each in options)
        assert f"`{cls.__name__}({heading})`" in text


def test_what_a_handler_is_told_is_listed_on_the_page_of_sagas() -> None:
    """All of the rollback context."""
    names = [field.name for field in dataclasses.fields(Rollback)]

    assert [name for name in names if f"`{name}`" not in text_of("howto/sagas")] == []


@pytest.mark.parametrize("event", [StepFailed, RollbackFailed])
def test_what_an_error_hook_is_told_is_listed(event: type) -> None:
    """Each kind of event has a row."""
    row = next(cells for cells in rows("howto/errors") if cells[0] == f'`"{vars(event)["kind"]}"`')
    names = [field.name for field in dataclasses.fields(event)]

    assert in_row(row) == set(names) - {"workflow_id", "error"}


def in_row(cells: list[str]) -> set[str]:
    return set(re.findall(r"`(\w+)`", cells[2]))


def test_every_signal_is_listed() -> None:
    """With what it is sent."""
    names = {name for name, value in vars(signals).items() if isinstance(value, Signal)}
    listed = {in_code(cells[0]) for cells in rows("howto/errors")}

    assert names <= listed


# Handles -----------------------------------------------------------------------------------------


def test_everything_that_a_handle_has_is_described_and_nothing_else() -> None:
    """What comes later is listed as such, and is not there yet."""
    text = text_of("reference/handles")
    names = public(Handle) | {"created", "key"}
    twins = {name for name in names if name.startswith("a") and name[1:] in names}

    assert [name for name in names - twins if f"`handle.{name}" not in text] == []
    assert [name for name in twins if f"`{name}`" not in text] == []
    assert names & set(re.findall(r"`(\w+)`", not_yet("reference/handles"))) == set()


def test_every_part_of_a_history_is_listed() -> None:
    """Fields, kinds and what may have become of a rollback."""
    text = text_of("reference/handles")
    fields = [field.name for cls in (HistoryEntry, RollbackRecord) for field in dataclasses.fields(cls)]
    words = {*fields, *map(str, Kind), *map(str, UndoStatus)} - {"seq"}

    assert [word for word in words if f"`{word}`" not in text] == []


def test_every_status_is_explained() -> None:
    """The words that a handle, the admin and the API show."""
    listed = {in_code(cells[0]) for cells in rows("concepts")}

    assert set(WorkflowRun.Status.values) - {"paused"} <= listed
    assert "`paused`" in text_of("concepts")


@pytest.mark.parametrize(
    ("key", "url"),
    [(("tenant-1", "a~b"), "tenant-1~a~0b"), (("a", "0b"), "a~~~0b"), ("a~b", "a~0b")],
    ids=str,
)
def test_keys_look_in_urls_as_the_page_says(key: str | tuple[str, ...], url: str) -> None:
    """The examples of the page are true."""
    assert key_to_url(normalize_key(key)) == url
    assert f"`{url}`" in text_of("reference/handles")


# The tour ----------------------------------------------------------------------------------------


def test_the_tour_names_files_that_are_there() -> None:
    """And where it names a thing in a file, that is in it."""
    text = text_of("tour")
    folders = (PACKAGE, DOCS.parent)
    paths = set(re.findall(r"`((?:[\w]+/)+(?:\w+\.py)?)`", text))
    things = re.findall(r"`([\w.]+)`[^`]{1,12}`((?:\w+/)+\w+\.py)`", text.replace("\n", " "))

    assert [path for path in paths if not any((folder / path).exists() for folder in folders)] == []
    assert len(things) > 20
    for name, path in things:
        module = import_module("django_rivet." + path.removesuffix(".py").replace("/", "."))
        found = module
        for part in name.split("."):
            found = getattr(found, part, None)  # type: ignore[assignment]
        assert found is not None, (name, path)


def test_the_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    """As ``make docs`` builds it: no dead link, no page that nobody leads to."""
    build = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        str(DOCS),
        str(tmp_path / "html"),
    ]

    done = subprocess.run(build, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stderr
