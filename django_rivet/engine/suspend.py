"""Why a pass ends before the workflow does.

These are no errors: they lie outside ``Exception`` so that ``except Exception`` in a workflow cannot swallow them.
"""

from __future__ import annotations

from datetime import datetime


class Unwind(BaseException):
    """The engine is leaving the workflow function; you see it because a ``finally`` or a bare ``except`` ran.

    Let it pass: until it has left the function, every call on a context raises it again.
    """


class Waiting(Unwind):
    """Nothing to do before ``until``, or before a message arrives in one of ``queues``."""

    def __init__(self, until: datetime | None = None, queues: tuple[str, ...] | None = None) -> None:
        self.until = until
        self.queues = queues
        """None: no message is waited for; empty: any message will do."""
        super().__init__(until, queues)


class HandedOver(Unwind):
    """This worker gives the actor away: its slice is over, or it shuts down."""


class CancelRequested(Unwind):
    """Somebody cancelled the workflow."""

    def __init__(self, rollback: bool) -> None:
        self.rollback = rollback
        super().__init__(rollback)


class RunTimedOut(Unwind):
    """The workflow has used up its ``run_timeout``: it fails, whatever it would catch."""

    def __init__(self, run_timeout: float, under_way: frozenset[str] = frozenset()) -> None:
        self.run_timeout = run_timeout
        self.under_way = under_way
        """Paths of the steps whose bodies were running when the time was over."""
        super().__init__(run_timeout, under_way)


class LeaseLost(Unwind):
    """Another worker drives the actor now; nothing more of this one can be written."""


class RaceLost(Unwind):
    """Another branch has won the race that this one is part of."""


class RollbackStopped(Unwind):
    """A rollback handler is out of attempts."""


class Broken(Unwind):
    """The database failed the engine: the pass ends, nothing is charged, another will try."""


NOTHING_LANDS = (LeaseLost, Broken)
"""Nothing of this pass can be written any more."""
