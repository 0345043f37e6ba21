"""What an actor's ``on_before_connect`` hook is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Connection:
    """A WebSocket connection that wants to be let in. Plain data: nothing can be sent on it."""

    user: Any
    """As ``request.user``: an ``AnonymousUser`` where nobody is logged in."""
    query: Mapping[str, str]
    """What stands behind the ``?`` of the address; of a name that stands there twice the last value."""
    headers: Mapping[str, str]
    """Of the handshake, by their names in small letters; browsers let a page set none of them."""
