"""Numbers that are given as flags."""

import math
from typing import Any

import click


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
