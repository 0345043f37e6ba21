"""Sent robustly after the commit that records what they tell: for calls to the outside.

Each is sent with ``sender`` (the actor class), ``actor`` (its handle) and, for failures, ``event``. A crash between
the commit and the signal loses the signal; what must not be lost belongs in a step or in the error hook.
"""

from django.dispatch import Signal

step_failed = Signal()
"""An attempt of a step failed."""
rollback_failed = Signal()
"""An attempt of a rollback handler failed."""
workflow_failed = Signal()
"""The workflow ended ``failed`` or ``rollback_failed``; carries ``error``."""
workflow_completed = Signal()
"""The workflow returned; carries ``output``."""
