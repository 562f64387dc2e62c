"""Figures as tables show them; – where there is none."""

from ...protocols.scoring.statistics import Estimate
from ..display.quantity import signed
from ..display.table import error_text


def estimated(figure: Estimate | None, digits: int = 2, *, sign: bool = True) -> str:
    """The mean, ± half the width of its interval if it has one."""
    if figure is None:
        return "–"
    mean = signed(figure.mean, digits) if sign else f"{figure.mean:z.{digits}f}"
    half = figure.half_width
    return mean if half is None else f"{mean} ± {error_text(half, digits)}"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def span(interval: tuple[float, float], digits: int = 3) -> str:
    """`[-0.120, +0.045]`"""
    low, high = interval
    return f"[{signed(low, digits)}, {signed(high, digits)}]"
