"""The arguments and the result of an action against its annotations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from inspect import Parameter
from typing import Any

from django_rivet.actors.annotations import annotations_of
from django_rivet.actors.arguments import Arguments, match
from django_rivet.actors.exceptions import InvalidInputError
from django_rivet.actors.json_schema import describe_all
from django_rivet.actors.validation import ValueType, invalid

_Convert = Callable[[ValueType, Any, str], Any]


class Signature:
    """Of a method. Parameters without an annotation take anything."""

    def __init__(self, function: Callable[..., Any], local_names: Mapping[str, Any] | None = None) -> None:
        self.function = function
        self._local_names = local_names or {}

    def bind(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Arguments:
        """The arguments as their declared types.

        ``InvalidInputError`` lists what is missing, unexpected or does not fit, all of it together.
        """
        return self._bind(args, kwargs, ValueType.validate)

    def storable(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Arguments:
        """The same, in the types that the codec takes; ``bind`` makes the declared ones again."""

        def stored(kind: ValueType, value: Any, where: str) -> Any:
            return kind.storable(kind.validate(value, where), where)

        return self._bind(args, kwargs, stored)

    def validate_result(self, value: Any) -> Any:
        """What the method returned, or its coroutine, as the declared type."""
        return self.result.validate(value, "result")

    @cached_property
    def types(self) -> dict[str, ValueType]:
        """Of each parameter after ``self``, in order."""
        return {name: ValueType(self._annotations.get(name, Any)) for name in self._parameters}

    @cached_property
    def result(self) -> ValueType:
        return ValueType(self._annotations.get("return", Any), infer=True)

    def arguments_schema(self, ref_template: str = "#/$defs/{model}") -> dict[str, Any]:
        """The arguments by name, as the JSON Schema of one object."""
        adapters = {name: kind.adapter for name, kind in self.types.items()}
        properties, definitions = describe_all(adapters, ref_template)
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {},
            "required": [],
            "additionalProperties": False,
        }
        for name, parameter in self._parameters.items():
            if parameter.kind is Parameter.VAR_KEYWORD:
                schema["additionalProperties"] = properties[name]
            elif parameter.kind is not Parameter.VAR_POSITIONAL:
                schema["properties"][name] = properties[name]
                if parameter.default is Parameter.empty:
                    schema["required"].append(name)
        return {**schema, **({"$defs": definitions} if definitions else {})}

    def result_schema(self, ref_template: str = "#/$defs/{model}") -> dict[str, Any]:
        return self.result.json_schema("serialization", ref_template)

    def verify(self) -> None:
        """``ImproperlyConfigured`` where an annotation names nothing, or nothing usable."""
        for kind in (*self.types.values(), self.result):
            _ = kind.adapter

    # Private -------------------------------------------------------------------------------------

    def _bind(self, args: Any, kwargs: Any, convert: _Convert) -> Arguments:
        given, faults = match(self._self_name, self._parameters, args, kwargs or {})
        arguments = Arguments([], {})
        for name, where, value, keyword in given:
            try:
                converted = convert(self.types[name], value, where)
            except InvalidInputError as error:
                faults += error.errors
                continue
            if keyword is None:
                arguments.args.append(converted)
            else:
                arguments.kwargs[keyword] = converted
        if faults:
            raise invalid(faults)
        return arguments

    @cached_property
    def _annotations(self) -> dict[str, Any]:
        return annotations_of(self.function, self._local_names)

    @cached_property
    def _all_parameters(self) -> list[Parameter]:
        return list(inspect.signature(self.function).parameters.values())

    @cached_property
    def _self_name(self) -> str:
        return self._all_parameters[0].name

    @cached_property
    def _parameters(self) -> dict[str, Parameter]:
        return {parameter.name: parameter for parameter in self._all_parameters[1:]}
