"""A protocol of a user's own, whose import leaves a file: nobody who only reads a run makes it."""

STEEL = """\
from dataclasses import dataclass
from pathlib import Path
from oversight.protocols import Propaganda
Path("executed").touch()

@dataclass(frozen=True)
class Steelman(Propaganda):
    strength: int = 2
"""
