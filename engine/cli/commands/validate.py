"""`oversight validate`: a short name of `oversight measure validate`."""

from .measure import validate as command

__all__ = ["command"]
