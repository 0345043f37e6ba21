"""Perform a step: ask the verb, and do what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django_rivet.engine import codec
from django_rivet.engine.compensation import register
from django_rivet.engine.completing import waits_completed_by
from django_rivet.engine.current import Completions
from django_rivet.engine.decision import FailedAttempt, Perform, Refuse, Replay, Wait
from django_rivet.engine.entries import Compensation, Entry, EntryStatus, Kind
from django_rivet.engine.exceptions import InvalidStepError, OutputNotSerializableError, RollbackCheckpointError
from django_rivet.engine.failures import step_error
from django_rivet.engine.notes import Changes
from django_rivet.engine.options import StepOptions, step_options
from django_rivet.engine.ports import StepCall
from django_rivet.engine.scoped import Scoped
from django_rivet.engine.verbs import step as verb


@dataclass(frozen=True, slots=True)
class Body:
    """What a step calls."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


def perform(scoped: Scoped, name: str, body: Body, given: Mapping[str, Any]) -> Any:
    """The value of the step called ``name``: recorded, or of a body that runs now. Raises what the step fails with."""
    walk, host = scoped.walk, scoped.walk.host
    options = step_options(name, given, host.step_defaults)
    _check_body(name, body)
    register_undo = _undo_of(scoped, name, body, options)
    _, entry = scoped.enter(name, Kind.STEP)
    entry = replace(entry, atomic=options.atomic)
    while True:
        match verb.decide(entry, options, _circumstances(scoped)):
            case Replay(value):
                return value
            case Refuse(error, failed, record):
                if failed is not None:
                    host.record_failure(replace(failed, entry=replace(failed.entry, seq=walk.history.next_seq())))
                if record is not None:
                    scoped.note(record)
                raise error
            case Wait(until):
                scoped.wait(until, None)
            case Perform(begun):
                if entry.status is EntryStatus.RETRYING:
                    # What never completed binds nothing, and so may not happen in front of what does.
                    walk.history.refuse_new(scoped.scope.path, f"the step {name!r} stands before them")
                call = _call(scoped, begun, options, body, register_undo)
                with scoped.inside(f"step {name!r}"):
                    original = host.run_step(call)
                entry = walk.history.entries[begun.path]
                if entry.status is EntryStatus.FAILED:
                    raise step_error(entry, original)


# Below: how it is done ---------------------------------------------------------------------------

RegisterUndo = Callable[[Entry, str], tuple[Compensation, ...]]


def _check_body(name: str, body: Body) -> None:
    if not callable(body.function):
        raise InvalidStepError(f"step {name!r}: {body.function!r} cannot be called")
    kwargs: object = body.kwargs
    if not isinstance(kwargs, Mapping) or not all(isinstance(key, str) for key in kwargs):
        raise InvalidStepError(f"step {name!r}: kwargs must be a dict with strings as keys, not {body.kwargs!r}")


def _circumstances(scoped: Scoped) -> verb.Circumstances:
    host = scoped.walk.host
    return verb.Circumstances(
        now=host.now(),
        takeovers=host.takeovers,
        max_takeovers=host.max_takeovers,
        workflow_id=host.workflow_id,
    )


def _undo_of(scoped: Scoped, name: str, body: Body, options: StepOptions) -> RegisterUndo:
    """What a record of this step registers for rollback. What cannot be is refused before the body has any effect."""
    if options.rollback is None:
        return lambda entry, outcome: ()
    owner = scoped.scope.owner()
    if owner is None:
        raise RollbackCheckpointError(
            f"step {name!r} has a rollback handler, but no ctx.rollback_checkpoint(...) stands before it "
            "in this scope or one around it"
        )
    reference = scoped.walk.host.handler_reference(options.rollback)
    try:
        arguments = codec.encode([list(body.args), dict(body.kwargs)])
    except OutputNotSerializableError as error:
        raise OutputNotSerializableError(
            f"the arguments of step {name!r} are kept for its rollback handler: {error}", error.path
        ) from None
    return lambda entry, outcome: (register(entry, owner, reference, arguments, options, outcome=outcome),)


def _call(scoped: Scoped, entry: Entry, options: StepOptions, body: Body, register_undo: RegisterUndo) -> StepCall:
    walk, host, history = scoped.walk, scoped.walk.host, scoped.walk.history
    completions = Completions(walk)

    @history.baton.taken()
    def start() -> Changes:
        begun = replace(entry, status=EntryStatus.RUNNING, seq=history.next_seq())
        is_owed = options.rollback_when == "attempted"
        return Changes((begun,), compensations=register_undo(begun, "unknown") if is_owed else ())

    @history.baton.taken()
    def succeeded(value: Any) -> Changes:
        walk.refuse_unwinding()
        done = verb.succeeded(entry, value, history.next_seq(), host.now(), host.max_output_bytes)
        made = tuple(completions.made.values())
        waits = waits_completed_by(made, history)
        return Changes((done, *waits), compensations=register_undo(done, "completed"), completions=made)

    @history.baton.taken()
    def failed(error: BaseException) -> FailedAttempt:
        walk.refuse_unwinding()
        return verb.failed(
            entry,
            error,
            options,
            seq=history.next_seq(),
            now=host.now(),
            chance=host.chance(),
            workflow_id=host.workflow_id,
        )

    return StepCall(entry, options, body.function, body.args, body.kwargs, completions, start, succeeded, failed)
