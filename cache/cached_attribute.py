"""Values computed on first use and cached on a frozen instance.

The class must not have slots. Two threads may compute the same value twice; either one is kept."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

Owner = TypeVar("Owner")
Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")

MAX_RESULTS = 1024
"""Maximum results per method and instance; when full, they are cleared."""


class cached_attribute(Generic[Value]):
    """`functools.cached_property` without its lock, which costs as much as an address."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> "cached_attribute[Value]": ...
    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...
    def __get__(self, owner: object | None, kind: type) -> "Value | cached_attribute[Value]":
        if owner is None:
            return self
        value = vars(owner)[self._name] = self._compute(owner)
        return value


def memoized(
    compute: Callable[Concatenate[Owner, Arguments], Value],
) -> Callable[Concatenate[Owner, Arguments], Value]:
    """A method whose results are cached by its arguments, which must be hashable.
    `functools.lru_cache` would hash the whole instance at every call, and outlive it."""
    name = f"_results_of_{compute.__name__}"

    @wraps(compute)
    def remember(owner: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
        key = (args, *kwargs.items())
        try:
            value: Value = owner.__dict__[name][key]
            return value
        except KeyError:
            pass
        value = compute(owner, *args, **kwargs)
        results = owner.__dict__.setdefault(name, {})
        if len(results) >= MAX_RESULTS:
            results.clear()
        results[key] = value
        return value

    return remember
