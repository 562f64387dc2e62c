"""A sandbox for Python that a model wrote: one process for each run, and nothing outlives it.

The kernel lets the process compute, read its input and write its output: every other system call
is refused (seccomp), so it opens no file and no socket, starts no process, and signals none. Memory
and processor time are limited, and so is what is read of its output. What depends on chance is the
same in each run. Whatever comes back is the code's own word, and must be checked as such.
"""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from typing import Any, Literal
from weakref import WeakKeyDictionary

import orjson

CPU_SECONDS = 2
MEMORY = 512 * 2**20
"""Bytes of address space."""
MAX_OUTPUT = 65_536
"""Bytes that are read; a process that writes more is ended."""
STARTED = " "
"""What a confined process writes before any code of a model's runs. JSON skips it."""
WALL_SECONDS = 60
"""The code cannot sleep, so a busy machine alone comes near this."""

Cause = Literal["time", "memory", "output", "code"]

_RUNNER = r"""
import collections, ctypes, functools, itertools, json, math, operator, platform, random, re
import resource, string, struct, sys
job = json.loads(sys.stdin.buffer.read())
CALLS = {
    "x86_64": (0xC000003E, [0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 25, 28, 39, 60, 131, 186,
                            228, 231, 318]),
    "aarch64": (0xC00000B7, [57, 62, 63, 64, 80, 93, 94, 113, 132, 134, 135, 139, 172, 178,
                             214, 215, 216, 222, 226, 233, 278]),
}
def confined():
    # read, write, close, fstat, lseek, memory, signals of one's own, ids, clock, randomness, exit;
    # nothing that waits.
    if platform.machine() not in CALLS:
        return False
    machine, calls = CALLS[platform.machine()]
    LOAD, EQUAL, RETURN, ALLOW, REFUSE = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050001
    steps = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, machine), (RETURN, 0, 0, REFUSE), (LOAD, 0, 0, 0)]
    for call in calls:
        steps += [(EQUAL, 0, 1, call), (RETURN, 0, 0, ALLOW)]
    steps.append((RETURN, 0, 0, REFUSE))
    packed = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    program = Program(len(steps), ctypes.addressof(packed))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return not prctl(38, 1, 0, 0, 0) and not prctl(22, 2, ctypes.byref(program), 0, 0)
for name, most in (("CPU", job["cpu"]), ("AS", job["memory"]), ("FSIZE", 0), ("CORE", 0)):
    resource.setrlimit(getattr(resource, "RLIMIT_" + name), (most, most))
if not confined():
    sys.exit(1)
sys.stdout.buffer.write(job["started"].encode())
sys.stdout.buffer.flush()
random.seed(0)
sys.setrecursionlimit(2_000)
class Silent:
    write = flush = lambda *each: None
out, sys.stdout, sys.stderr = sys.stdout.buffer, Silent(), Silent()
names = {}
try:
    exec(compile(job["code"], "<code>", "exec"), names)
    told = {"value": names.get(job["name"])}
    written = json.dumps(told)
except MemoryError:
    written = json.dumps({"memory": True})
except BaseException as exc:
    written = json.dumps({"error": type(exc).__name__})
out.write(written.encode())
out.flush()
"""


class SandboxError(RuntimeError):
    """There is no sandbox on this machine, so no code was run."""


class Failed(Exception):
    """The code came to no result."""

    def __init__(self, cause: Cause, told: str = "") -> None:
        super().__init__(told or cause)
        self.cause = cause
        self.told = told
        """Name of a built-in exception; empty for another one."""


async def run_confined(code: str, name: str) -> Any:
    """The value of the global `name` after the code has run, as JSON has it. Failed if it came to
    none; SandboxError where the kernel confines nothing. Cancelled, it ends the process."""
    async with _turns():
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-s", "-S", "-P", "-c", _RUNNER,
            stdin=PIPE, stdout=PIPE, stderr=DEVNULL, cwd="/",
            # The order of sets is that of hashes.
            env={"PYTHONHASHSEED": "0"},
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        job = {"code": code, "name": name, "cpu": CPU_SECONDS, "memory": MEMORY, "started": STARTED}
        written, ended = b"", False
        try:
            async with asyncio.timeout(WALL_SECONDS):
                with contextlib.suppress(ConnectionError):
                    process.stdin.write(orjson.dumps(job))
                    await process.stdin.drain()
                process.stdin.close()
                while len(written) <= MAX_OUTPUT and (part := await process.stdout.read(8192)):
                    written += part
                if len(written) <= MAX_OUTPUT:
                    await process.wait()
                    ended = True
        except TimeoutError:
            raise Failed("time") from None
        finally:
            # Killing one that has ended takes its exit code from asyncio.
            if not ended:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
    if not written:
        raise SandboxError(
            f"this machine cannot confine code (exit code {process.returncode} before it ran): the "
            "sandbox needs Linux with seccomp, on x86-64 or ARM; leave the tool out, or run on "
            "such a machine"
        )
    assert process.returncode is not None
    return _value(written, process.returncode)


def _value(written: bytes, code_of_exit: int) -> Any:
    if len(written) > MAX_OUTPUT:
        raise Failed("output")
    try:
        told = orjson.loads(written)
    except orjson.JSONDecodeError:
        slow = code_of_exit in (-signal.SIGXCPU, -signal.SIGKILL) and written == STARTED.encode()
        raise Failed("time" if slow else "code") from None
    match told:
        case {"value": value}:
            return value
        case {"memory": True}:
            raise Failed("memory")
        case {"error": str(name)} if name in _EXCEPTIONS:
            raise Failed("code", name)
    raise Failed("code")


_EXCEPTIONS = frozenset(
    name for name, each in vars(__import__("builtins")).items()
    if isinstance(each, type) and issubclass(each, BaseException)
)  # fmt: skip

_AT_ONCE: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = WeakKeyDictionary()


def _turns() -> asyncio.Semaphore:
    """Limits processes under way to the number of cores."""
    loop = asyncio.get_running_loop()
    return _AT_ONCE.setdefault(loop, asyncio.Semaphore(os.cpu_count() or 1))
