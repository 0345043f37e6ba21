"""Values against their declared types: the only door to pydantic.

``validate`` takes what a caller gave, ``storable`` turns that into what the codec writes, ``load``
makes the declared type of it again. Stored values bear the names of fields, never their aliases: an
alias belongs to those outside and may change with them.

A validator sees a value when it is given and again each time it is loaded, so it must leave alone
what it has made itself (no hashing of passwords in there).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, get_args, get_origin

from django.core.exceptions import ImproperlyConfigured
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.json_schema import JsonSchemaMode
from pydantic_core import ErrorDetails

from django_rivet.actors.exceptions import InvalidInputError
from django_rivet.actors.json_schema import describe
from django_rivet.actors.plain import plain
from django_rivet.engine import codec
from django_rivet.engine.exceptions import OutputNotSerializableError


class ValueType:
    """A declared type of values; built when it is first used, so it may be named before it exists.

    Where the annotation says nothing about what is inside (``Any``, ``dict``, ``list[Any]``), the
    value must be storable as it is. ``infer=True`` turns models and dataclasses into dicts there
    too: for results that are shown and not read back.
    """

    def __init__(self, annotation: Any = Any, *, infer: bool = False) -> None:
        self.annotation = annotation
        self._as_is = _says_nothing(annotation) and not infer

    def validate(self, value: Any, where: str) -> Any:
        """``value`` as the declared type. ``InvalidInputError`` lists every fault below ``where``."""
        if self.annotation is Any:
            return value
        try:
            return self.adapter.validate_python(value)
        except ValidationError as error:
            raise invalid(faults_of(error, value, where)) from error

    def storable(self, value: Any, where: str) -> Any:
        """A validated ``value`` in the types that ``codec.encode`` takes."""
        stored, _ = self._stored(value, where)
        return stored

    def text(self, value: Any, where: str) -> str:
        """A validated ``value`` as the codec's text; cheaper than encoding what ``storable`` gives."""
        _, text = self._stored(value, where)
        return text

    def load(self, stored: Any, where: str = "value") -> Any:
        """What ``storable`` gave, as the declared type again.

        ``InvalidInputError`` where the declaration has changed and the old value no longer fits.
        """
        if self._as_is:
            return stored
        try:
            # Not strict: a tuple was stored as a list, a set as well.
            return self.adapter.validate_python(stored, strict=False, by_alias=False, by_name=True)
        except ValidationError as error:
            raise invalid(faults_of(error, stored, where)) from error

    def revalidate(self, value: Any, where: str) -> Any:
        """A copy of a validated ``value``, validated again down to what code has since put inside."""
        return value if self._as_is else self.load(self._dumped(value, where), where)

    def json_schema(self, mode: JsonSchemaMode = "validation", ref_template: str = "#/$defs/{model}") -> dict[str, Any]:
        """What a client may send (``validation``) or will get (``serialization``)."""
        return describe(self.adapter, mode, ref_template)

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        try:
            return _adapter(self.annotation)
        except (PydanticUserError, NameError, TypeError) as error:
            raise ImproperlyConfigured(f"values cannot be validated by {self.annotation!r}: {error}") from error

    def __repr__(self) -> str:
        return f"ValueType({self.annotation!r})"

    def _stored(self, value: Any, where: str) -> tuple[Any, str]:
        if not self._as_is:
            value = self._dumped(value, where)
        try:
            return value, codec.encode(value)
        except OutputNotSerializableError as error:
            reason = str(error).removeprefix(f"{error.path}: ")
            fault = {"path": where + error.path.removeprefix("$"), "message": reason}
            raise invalid([fault]) from error

    def _dumped(self, value: Any, where: str) -> Any:
        try:
            # Values were validated before; what does not fit any more is found by the next load.
            dumped = self.adapter.dump_python(value, round_trip=True, warnings=False)
            return plain(dumped)
        except RecursionError:
            # Too deep, or it contains itself; the codec finds out where, but not in a model.
            return dict(vars(value)) if hasattr(type(value), "__pydantic_fields__") else value
        except ValueError as error:
            message = f"cannot be stored: {error}"
            raise invalid([{"path": where, "message": message}]) from error


def invalid(faults: Sequence[dict[str, Any]]) -> InvalidInputError:
    """One error for all faults."""
    shown = [f"{fault['path']}: {fault['message']}" for fault in faults[:_SHOWN]]
    if len(faults) > _SHOWN:
        shown.append(f"and {len(faults) - _SHOWN} more")
    return InvalidInputError("; ".join(shown), faults)


def faults_of(error: ValidationError, value: Any, where: str) -> list[dict[str, Any]]:
    """pydantic's faults as ours, with paths that lead into ``value``."""
    return [
        {"path": where + _path(found, value), "message": found["msg"]}
        for found in error.errors(include_url=False, include_context=False, include_input=False)
    ]


_SHOWN = 5


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        # A class that pydantic does not know is checked by isinstance: good enough for what stays
        # in this process, and the codec refuses to store it.
        adapter = TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        adapter = TypeAdapter(annotation)
    adapter.rebuild(raise_errors=True)
    return adapter


def _says_nothing(annotation: Any) -> bool:
    if annotation in (Any, object, dict, list):
        return True
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is dict:
        return inside[0] in (str, Any) and _says_nothing(inside[1])
    return origin is list and _says_nothing(inside[0])


def _path(found: ErrorDetails, value: Any) -> str:
    """Where the fault stands. pydantic's own path also names the members of a union it tried."""
    path, parts = "", found["loc"]
    for place, part in enumerate(parts, start=1):
        inside, value = _step(value, part)
        if inside or (place == len(parts) and found["type"] == "missing"):
            name = isinstance(part, str) and part.isidentifier()
            path += f".{part}" if name else f"[{json.dumps(part)}]"
    return path


def _step(value: Any, part: int | str) -> tuple[bool, Any]:
    """Whether ``part`` leads into ``value``, and where to; to the value itself where it does not."""
    inside: Any = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
    if part in inside:
        return True, inside[part]
    if isinstance(part, int) and isinstance(value, Sequence) and part < len(value):
        return True, value[part]
    return False, value
