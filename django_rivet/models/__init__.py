"""The tables. Who writes them: ``store/``, and nobody else.

``Actor`` is the named object with its state, ``WorkflowRun`` its one workflow: status, lease and what it waits for.
They are two rows so that claims, heartbeats and cancellations never wait for a body that holds the actor's turn.
``Entry`` is the history, ``Compensation`` what a rollback would undo, ``Message`` the mailbox, ``Event`` what was
broadcast.
"""

from django_rivet.models.actor import Actor
from django_rivet.models.compensation import Compensation
from django_rivet.models.entry import Entry
from django_rivet.models.event import Event
from django_rivet.models.message import Message
from django_rivet.models.run import WorkflowRun

__all__ = ["Actor", "Compensation", "Entry", "Event", "Message", "WorkflowRun"]
