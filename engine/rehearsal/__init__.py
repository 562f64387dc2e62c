"""A local mock server that behaves like the vendors' servers, faults included."""

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
