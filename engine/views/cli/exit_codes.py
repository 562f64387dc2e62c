"""The exit codes of commands."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of every command; a run stopped by a signal leaves with 128 and its number."""

    DONE = 0
    FAILED = 1
    """Cells failed, a model was given up, or a check found what it looks for."""
    USAGE = 2
    """A flag, a file or the sweep is wrong; nothing was sent."""
    STOPPED = 3
    """Stopped, and the same command resumes."""
    OVER_BUDGET = 4
    MISSED = 5
    """A replay met a call that was never recorded."""
    BUSY = 7
    """Another process is running the folder: nothing is wrong, and later the command works."""
    INTERRUPTED = 130
