"""The machine that figures come from: its cores, and what it is called in a report."""

import os
import platform
from pathlib import Path

SERVER, CLIENT = 0, -1
"""Which of the cores at hand a server and a client are pinned to."""


def cores() -> list[int]:
    """The cores that this process may use; none where the system cannot say or pin."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []


def pin(pid: int, which: int) -> None:
    """Keep a process on one core, if its counterpart can have another one."""
    if len(available := cores()) > 1:
        os.sched_setaffinity(pid, {available[which]})


def described() -> str:
    """One line: processor, cores, system and Python; no name of a host, no path."""
    count = len(cores()) or os.cpu_count()
    pinned = "a core each" if len(cores()) > 1 else "nothing pinned"
    return (
        f"{_processor()}, {count} cores, {platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}; {pinned}"
    )


def load() -> float:
    """Processes that wanted a core over the last minute, on average: a quiet machine has few."""
    return os.getloadavg()[0]


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
