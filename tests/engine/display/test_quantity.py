"""Counts, figures and cells, as people read them: `display.md`."""

from pathlib import Path

import pytest

from oversight.engine.display.quantity import counted, short, signed
from oversight.engine.display.table import Table, as_latex
from tests.sessions import Session, sessions
from tests.tables import expressions


def latex(cell: str) -> list[str]:
    return as_latex(Table("t", ("h",), ((cell,),), 1)).splitlines()[5:6]


@sessions(Path(__file__).with_name("display.md"))
def test_what_is_shown(session: Session, request: pytest.FixtureRequest) -> None:
    names = {"counted": counted, "short": short, "signed": signed, "latex": latex}
    session.check(request, expressions(names))
