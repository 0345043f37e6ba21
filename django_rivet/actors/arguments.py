"""Which argument meets which parameter, with every mismatch told instead of one ``TypeError``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from inspect import Parameter
from typing import Any, NamedTuple


class Arguments(NamedTuple):
    """What to call a method with, after ``self``."""

    args: list[Any]
    kwargs: dict[str, Any]


class Given(NamedTuple):
    """One argument: its parameter, the path that errors name, its keyword if it came by one."""

    parameter: str
    where: str
    value: Any
    keyword: str | None = None


def match(
    self_name: str, parameters: Mapping[str, Parameter], args: Any, kwargs: Any
) -> tuple[list[Given], list[dict[str, Any]]]:
    """The arguments that met a parameter, and the faults of the others.

    ``parameters`` are those after ``self_name``. The form of the call is kept: what came by keyword
    stays a keyword.
    """
    if not isinstance(args, (list, tuple)):
        return [], [_fault("args", "must be a list")]
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        return [], [_fault("kwargs", "must be an object with names as keys")]
    given, faults = _positional(parameters, args)
    named, more = _named(self_name, parameters, kwargs, {each.parameter for each in given})
    given += named
    met = {each.parameter for each in given}
    missing = [
        _fault(name, "Missing argument")
        for name, parameter in parameters.items()
        if name not in met and parameter.default is Parameter.empty and _is_one(parameter)
    ]
    return given, faults + more + missing


def _positional(
    parameters: Mapping[str, Parameter], args: list[Any] | tuple[Any, ...]
) -> tuple[list[Given], list[dict[str, Any]]]:
    places = [name for name, parameter in parameters.items() if parameter.kind in _BY_PLACE]
    given = [Given(name, name, value) for name, value in zip(places, args, strict=False)]
    others = args[len(places) :]
    rest = _of_kind(parameters, Parameter.VAR_POSITIONAL)
    if rest is None:
        first = len(places)
        return given, [_fault(f"args[{first + index}]", "Unexpected argument") for index in range(len(others))]
    given += [Given(rest, f"{rest}[{index}]", value) for index, value in enumerate(others)]
    return given, []


def _named(
    self_name: str, parameters: Mapping[str, Parameter], kwargs: Mapping[str, Any], met: set[str]
) -> tuple[list[Given], list[dict[str, Any]]]:
    given, faults = [], []
    rest = _of_kind(parameters, Parameter.VAR_KEYWORD)
    for name, value in kwargs.items():
        where = name if name.isidentifier() else f"kwargs[{json.dumps(name)}]"
        parameter = parameters.get(name)
        if parameter is not None and parameter.kind in _BY_NAME:
            if name in met:
                faults.append(_fault(where, "Given twice, by its place and by its name"))
            else:
                given.append(Given(name, where, value, name))
        # Python would take it for the actor itself.
        elif rest is None or name == self_name:
            faults.append(_fault(where, "Unexpected argument"))
        else:
            given.append(Given(rest, where, value, name))
    return given, faults


_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _is_one(parameter: Parameter) -> bool:
    return parameter.kind in _BY_PLACE or parameter.kind in _BY_NAME


def _of_kind(parameters: Mapping[str, Parameter], kind: Any) -> str | None:
    return next((name for name, each in parameters.items() if each.kind is kind), None)


def _fault(path: str, message: str) -> dict[str, Any]:
    return {"path": path, "message": message}
