"""The options of a command from a dataclass of settings."""

import math
import types
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from functools import cache, wraps
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import click

from ..system.flags import FLAG, Flag
from .completing import run_names

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


class Number(click.FloatRange):
    """A number within a range. Unlike click's own, it takes neither `nan`, which is within no
    range and yet refused by none, nor `inf`."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def takes(settings: type[Any], name: str = "settings") -> Decorator:
    """Add an option for each field declared with `flag`; the command gets an instance as `name`."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        hints = get_type_hints(settings)
        every = declared(settings)

        @wraps(command)
        def with_settings(**given: Any) -> Any:
            own = {each.name: given.pop(each.name) for each in every}
            return command(**{name: settings(**own)}, **given)

        added: Callable[..., Any] = with_settings
        for each in reversed(every):
            added = _option(each, hints[each.name])(added)
        return added

    return decorated


def option_of(settings: type[Any], name: str, to: str = "") -> Decorator:
    """The option of one field, for a command that takes no others of the settings; the command gets
    it under the name of the field, unless another is given."""
    (field,) = (each for each in declared(settings) if each.name == name)
    return _option(field, get_type_hints(settings)[name], to)


def declared(settings: type[Any]) -> "list[Field[Any]]":
    """The fields that are options."""
    return [each for each in fields(settings) if FLAG in each.metadata]


def flag_name(field: "Field[Any]") -> str:
    """As the field's option is typed."""
    name: str = field.metadata[FLAG].name
    return name or f"--{field.name.replace('_', '-')}"


def _option(field: "Field[Any]", hint: Any, to: str = "") -> Decorator:
    flag: Flag = field.metadata[FLAG]
    names = (flag_name(field), to or field.name)
    default = field.default if field.default is not MISSING else None
    how: dict[str, Any] = {"help": flag.help, "hidden": flag.hidden, "metavar": flag.metavar}
    kinds = [each for each in _kinds(hint) if each is not types.NoneType]
    if bool in kinds:
        return click.option(*names, is_flag=True, **how)
    if get_origin(hint) is tuple or any(get_origin(each) is tuple for each in kinds):
        how["multiple"], default = True, ()
    if flag.read is not None:
        how |= {"callback": _reader(flag.read), "type": str}
        default = None if default is None else str(default)
    elif get_origin(kinds[0]) is Literal:
        how["type"] = click.Choice(list(get_args(kinds[0])))
    elif int in kinds:
        how["type"] = click.IntRange(None if flag.least is None else int(flag.least))
    elif float in kinds:
        how["type"] = Number(flag.least, flag.most)
    elif kinds == [Path]:
        how["type"] = click.Path(path_type=Path, exists=flag.exists)
    if flag.metavar == "RUN":
        how["shell_complete"] = run_names
    return click.option(*names, default=default, show_default=bool(default), **how)


@cache
def _kinds(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a union; of anything else, itself."""
    return get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _reader(read: Callable[[str], Any]) -> Callable[..., Any]:
    def callback(ctx: click.Context, param: click.Parameter, given: str | None) -> Any:
        try:
            return None if given is None else read(given)
        except ValueError as exc:
            raise click.BadParameter(str(exc)) from None

    return callback
