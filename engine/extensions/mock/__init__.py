"""A local mock server that behaves like the vendors' servers, faults included."""

from .profile import FAULT_KINDS, PROFILES, FaultKind, FaultWindow, Profile, load_profile
from .server import MockServer, Responder, filler

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
