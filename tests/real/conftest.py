"""The working folder and the command of the engine's tests."""

from tests.engine.conftest import command, place

__all__ = ["command", "place"]
