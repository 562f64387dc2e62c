"""A server of this machine that behaves like the vendors', on good days and bad."""

from oversight.engine.rehearsal.answers import Responder, filler
from oversight.engine.rehearsal.profile import (
    FAULT_KINDS,
    PROFILES,
    FaultKind,
    FaultWindow,
    Profile,
    load_profile,
)
from oversight.engine.rehearsal.server import MockServer

__all__ = [
    "FAULT_KINDS",
    "PROFILES",
    "FaultKind",
    "FaultWindow",
    "MockServer",
    "Profile",
    "Responder",
    "filler",
    "load_profile",
]
