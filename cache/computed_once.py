"""An attribute of a frozen value that follows from its fields, computed when it is first read."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class computed_once(Generic[Value]):
    """`functools.cached_property` without its lock, which costs as much as an address.

    Two threads may compute the same value twice, and either stays. The class has no slots.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> "computed_once[Value]": ...
    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...
    def __get__(self, owner: object | None, kind: type) -> "Value | computed_once[Value]":
        if owner is None:
            return self
        value = vars(owner)[self._name] = self._compute(owner)
        return value
