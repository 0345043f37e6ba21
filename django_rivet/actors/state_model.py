"""A plain ``class State`` as a pydantic model."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict


class PlainState(BaseModel):
    """The base of all of them.

    What the stored text holds and the class declares no longer is left out when it is loaded, like
    a removed field of a Django model. Setting what is not declared is an error.
    """

    model_config = ConfigDict(extra="ignore", arbitrary_types_allowed=True, protected_namespaces=())


class NothingDeclared(PlainState):
    """The state of an actor that declares none."""


def model_of(plain: type[Any], local_names: Mapping[str, Any]) -> type[BaseModel]:
    """A model with the attributes, defaults and methods of ``plain``.

    ``PydanticUserError`` where an attribute has no annotation.
    """
    with warnings.catch_warnings():
        # An attribute called "json" or "copy" hides a method of pydantic that nobody asked for here.
        warnings.simplefilter("ignore", UserWarning)
        model = _model_of(plain)
        if not model.__pydantic_complete__:
            names = {**vars(sys.modules[plain.__module__]), **local_names}
            model.model_rebuild(raise_errors=False, _types_namespace=names)
    return model


def _model_of(plain: type[Any]) -> type[BaseModel]:
    if issubclass(plain, BaseModel):
        return plain
    namespace = {name: value for name, value in vars(plain).items() if name not in ("__dict__", "__weakref__")}
    namespace["__qualname__"] = plain.__qualname__
    bases = tuple(_model_of(base) for base in plain.__bases__ if base is not object) or (PlainState,)
    return type(plain.__name__, bases, namespace)
