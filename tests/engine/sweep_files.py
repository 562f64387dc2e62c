"""Sweep documents for tests: a small whole one, and sweeps made of any text."""

from pathlib import Path

from oversight.engine.sweep.document import Document
from oversight.engine.sweep.sweep import Sweep
from oversight.engine.sweep.sweepfile import SweepFile, checked_sweep
from oversight.protocols.question import Problem
from tests.world import shipments

FILE = Path("s.yaml")


def sweep_file(text: str, *flags: str, problems: list[Problem] | None = None) -> SweepFile:
    """The sweep file of this text, on problems of the tests' own; `problems:` need not be there."""
    document = Document.parse(text, str(FILE))
    for flag in flags:
        document.set(flag)
    document.value.setdefault("problems", {"bundled": "arithmetic"})
    return checked_sweep(document, FILE, tuple(problems or shipments(2)))


def sweep(text: str, *flags: str, problems: list[Problem] | None = None) -> Sweep:
    return sweep_file(text, *flags, problems=problems).sweep({})
