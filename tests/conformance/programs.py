"""Random workflows, out of steps, waits, loops and blocks, and what befalls their workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st


@dataclass(frozen=True)
class Step:
    """Fails `faults` times before it succeeds, or for good where it is `fatal`, until the world is mended."""

    kind: str = "atomic"
    faults: int = 0
    fatal: str = ""
    tried: bool = False
    undoable: bool = False
    undo_faults: int = 0


@dataclass(frozen=True)
class Sleep:
    seconds: float = 60


@dataclass(frozen=True)
class Receive:
    """One message, or a batch; with a timeout nothing is sent to it."""

    batch: int = 0
    timeout: float | None = None
    completes: str = ""
    """Where the messages are completed: "at once", "in a step" that fails at first; empty: they are taken for good."""


@dataclass(frozen=True)
class Value:
    kind: str = "random"


@dataclass(frozen=True)
class Loop:
    body: tuple[Any, ...]
    iterations: int = 2
    leave: str = "break"
    interval: int = 20
    size: int | None = None
    checkpoint: bool = False


@dataclass(frozen=True)
class Block:
    body: tuple[Any, ...]
    saga: bool = False
    raises: bool = False
    checkpoint: bool = False


@dataclass(frozen=True)
class Fork:
    """A join, or a race, of these branches."""

    branches: tuple[tuple[Any, ...], ...]
    race: bool = False
    rollback_losers: bool = False
    checkpoint: bool = False


def bodies(nodes: st.SearchStrategy[Any], least: int = 1) -> st.SearchStrategy[Any]:
    return st.lists(nodes, min_size=least, max_size=4).map(tuple)


def constructs(nodes: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    inside = bodies(nodes) | st.just(())
    loops = st.builds(
        Loop,
        inside,
        iterations=st.integers(1, 4),
        leave=st.sampled_from(["break", "exception", "function"]),
        interval=st.integers(1, 3),
        size=st.none() | st.integers(1, 3),
        checkpoint=st.booleans(),
    )
    return loops | st.builds(Block, inside, saga=st.booleans(), raises=st.booleans(), checkpoint=st.booleans())


def programs_of(steps: st.SearchStrategy[Step], **root: Any) -> st.SearchStrategy[Block]:
    leaves = st.one_of(
        steps,
        steps,
        st.builds(Sleep, st.sampled_from([0, 60])),
        st.builds(
            Receive,
            batch=st.integers(0, 3),
            timeout=st.sampled_from([None, 0, 30]),
            completes=st.sampled_from(["", "at once", "in a step"]),
        ),
        st.builds(Value, st.sampled_from(["random", "uuid", "now"])),
    )
    return st.builds(Block, bodies(leaves | st.recursive(constructs(leaves), constructs, max_leaves=6), 2), **root)


def forks_of(steps: st.SearchStrategy[Step], **options: Any) -> st.SearchStrategy[Block]:
    """Programs with branches. Which branch gets which message would be a matter of chance, so none asks for any."""
    leaves = st.one_of(steps, steps, st.builds(Sleep, st.sampled_from([0, 60])))

    def fork(nodes: st.SearchStrategy[Any]) -> st.SearchStrategy[Fork]:
        branches = st.lists(bodies(nodes) | st.just(()), max_size=3).map(tuple)
        return st.builds(Fork, branches, checkpoint=st.booleans(), **options)

    nested = st.recursive(fork(leaves), lambda nodes: fork(nodes | constructs(nodes)) | constructs(nodes), max_leaves=5)
    return st.builds(Block, bodies(leaves | fork(leaves) | nested, 2), checkpoint=st.booleans(), raises=st.booleans())


kinds = st.sampled_from(["atomic", "atomic", "outside", "attempted", "ephemeral"])
any_steps = st.builds(
    Step,
    kind=kinds,
    faults=st.integers(0, 2),
    fatal=st.sampled_from(["", "", "", "", "critical", "exhausted"]),
    tried=st.booleans(),
    undoable=st.booleans(),
)
undoable_steps = st.builds(Step, kind=kinds, undoable=st.just(True), undo_faults=st.integers(0, 1))
programs = programs_of(any_steps, checkpoint=st.booleans(), raises=st.booleans()) | programs_of(
    undoable_steps, checkpoint=st.just(True), raises=st.just(True)
)

races = forks_of(any_steps, race=st.booleans(), rollback_losers=st.booleans()) | forks_of(
    undoable_steps, race=st.booleans(), rollback_losers=st.booleans()
)


@dataclass(frozen=True)
class Accident:
    """A death before or after the n-th commit, or an eviction that is noticed when it is asked for the n-th time."""

    kind: str
    n: int


accidents = st.lists(
    st.builds(Accident, st.sampled_from(["before", "after", "evict"]), st.integers(1, 9)), min_size=1, max_size=4
)
