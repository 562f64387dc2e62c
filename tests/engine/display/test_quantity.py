"""Counts, figures and cells, as people read them: `display.md`."""

from pathlib import Path

from oversight.engine.analysis.pictures.data import Axis
from oversight.engine.display.quantity import counted, short, signed
from oversight.engine.display.table import Table, as_latex
from oversight.engine.views.pages.environment import typeset
from tests.sessions import sessions
from tests.tables import expressions


def latex(cell: str) -> list[str]:
    return as_latex(Table("t", ("h",), ((cell,),), 1)).splitlines()[5:6]


def ticks(low: float, high: float) -> str:
    axis = Axis.around((low, high))
    return " ".join(axis.label(tick) for tick in axis.ticks)


@sessions(Path(__file__).with_name("display.md"))
def test_what_is_shown(session, request):
    names = {"counted": counted, "short": short, "signed": signed, "latex": latex}
    names |= {"typeset": typeset, "ticks": ticks}
    session.check(request, expressions(names))
