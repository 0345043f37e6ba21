"""The annotations of a function as types, also where they are written as strings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from django.core.exceptions import ImproperlyConfigured


def annotations_of(function: Callable[..., Any], local_names: Mapping[str, Any]) -> dict[str, Any]:
    """Each annotated parameter, and ``return``. ``ImproperlyConfigured`` names what is not found.

    Called when they are first needed: an annotation may name a class defined further down.
    """
    if not getattr(function, "__annotations__", None):
        return {}
    try:
        return get_type_hints(function, localns=dict(local_names), include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ImproperlyConfigured(
            f"an annotation of {function.__module__}.{function.__qualname__} cannot be resolved: "
            f"{error}. Import the name at the top of the module, not under TYPE_CHECKING"
        ) from error


def names_around_a_class(qualname: str) -> dict[str, Any]:
    """The local names of the function that is defining the class ``qualname``, if one is.

    Called while the class is made. Classes of a module need none of it: their names are global.
    """
    if "<locals>" not in qualname:
        return {}
    function = qualname.rpartition(".<locals>")[0]
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_qualname != function:
        frame = frame.f_back
    return {} if frame is None else dict(frame.f_locals)
