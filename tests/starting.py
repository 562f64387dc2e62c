"""Processes that start in milliseconds: forked from one that has imported the program.

A new Python process needs half a second of a core to import the command line, and the tests start
hundreds. For its caller, `Started` behaves like `subprocess.Popen`: pid, environment, working
folder, file descriptors, signals and exit code. Only the start of Python differs, so tests of it
(import time, memory, `python -X`) use `subprocess`."""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from oversight.engine.system.process import COMMANDS_GROUP, registered

ROOT = Path(__file__).parents[1]
_LENGTH = struct.Struct("!I")
_STATUS = struct.Struct("!i")


class Started(subprocess.Popen[Any]):
    """A process of `[sys.executable, "-m", MODULE, …]` or `[sys.executable, "-c", CODE, …]`.

    Anything else, and what has a `preexec_fn` or other settings of Python's start, is executed."""

    _ended: socket.socket | None = None
    """Tells the exit status of a forked process."""

    def _execute_child(self, *values: Any) -> None:
        usual = super()._execute_child  # type: ignore[misc]
        args = signature(usual).bind(*values).arguments
        if not _forks(args):
            usual(*values)
            return
        pipes = [args[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        ends = [standard if pipe == -1 else pipe for standard, pipe in enumerate(pipes)]
        environment = dict(os.environ) if args["env"] is None else args["env"]
        order = {
            "words": [os.fspath(word) for word in args["args"][1:]],
            "cwd": os.fspath(args["cwd"] or os.getcwd()), "environment": environment,
            "session": args["start_new_session"], "group": args["process_group"],
        }  # fmt: skip
        self._ended, theirs = socket.socketpair()
        with theirs:
            _forker().ask(order, [*ends, theirs.fileno()])
        (self.pid,) = _STATUS.unpack(self._ended.recv(_STATUS.size))
        self._child_created = True
        self._close_pipe_fds(*(args[name] for name in _PIPES))  # type: ignore[attr-defined]

    def _internal_poll(self, *positional: Any, **more: Any) -> int | None:
        if self._ended is None:
            polled: int | None = super()._internal_poll(*positional, **more)  # type: ignore[misc]
            return polled
        lock = self._waitpid_lock  # type: ignore[attr-defined]
        if self.returncode is None and lock.acquire(blocking=False):
            try:
                if self.returncode is None and (ended := self._try_wait(os.WNOHANG))[0]:
                    self.returncode = os.waitstatus_to_exitcode(ended[1])
            finally:
                lock.release()
        return self.returncode

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if self._ended is None:
            waited: tuple[int, int] = super()._try_wait(flags)  # type: ignore[misc]
            return waited
        try:
            status = self._ended.recv(_STATUS.size, socket.MSG_DONTWAIT if flags else 0)
        except BlockingIOError:
            return 0, 0
        except OSError:
            status = b""  # close pipes of unwaited processes
        self._ended.close()
        # Without a word, what forked it is gone.
        return self.pid, _STATUS.unpack(status)[0] if status else signal.SIGKILL


_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


def run(*positional: Any, **settings: Any) -> Any:
    """Run a process to its end, like `subprocess.run` with text output."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with Started(*positional, **{"stdin": subprocess.DEVNULL} | pipes | settings) as process:
        out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _forks(args: dict[str, Any]) -> bool:
    words = args["args"]
    environment = os.environ if args["env"] is None else args["env"]
    return (
        not isinstance(words, str)
        and len(words) > 2
        and words[0] == sys.executable
        and words[1] in ("-m", "-c")
        and not (args["preexec_fn"] or args["pass_fds"] or args["shell"] or args["executable"])
        # Settings that Python reads at its start are the same as here.
        and environment.get("PYTHONPATH", str(ROOT)) == str(ROOT)
        and all(
            os.environ.get(name) == value
            for name, value in environment.items()
            if name.startswith(("PYTHON", "LC_", "LANG")) and name != "PYTHONPATH"
        )
    )


class Forker:
    """The process that forks, and the socket to it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.starting", str(theirs.fileno())],
                cwd=ROOT,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._lock = threading.Lock()
        atexit.register(self.close)

    def ask(self, order: dict[str, Any], ends: list[int]) -> None:
        sent = json.dumps(order).encode()
        with self._lock:
            socket.send_fds(self._socket, [_LENGTH.pack(len(sent))], ends)
            self._socket.sendall(sent)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


_made: list[Forker] = []


def _forker() -> Forker:
    if not _made:
        _made.append(Forker())
    return _made[0]


# The rest runs in the forking process.


def serve(asking: socket.socket) -> dict[str, Any]:
    """Fork a process per request, and report its end. Returns only in the child, with its task."""
    running: dict[int, socket.socket] = {}
    woken, waking = socket.socketpair()
    waking.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waking.fileno())
    selector = selectors.DefaultSelector()
    selector.register(asking, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is woken:
                woken.recv(2**10)
                _tell_ends(running)
                continue
            length, ends, *_ = socket.recv_fds(asking, _LENGTH.size, 4)
            if not length:
                os._exit(0)
            request = json.loads(_exactly(asking, *_LENGTH.unpack(length)))
            if pid := os.fork():
                for end in ends[:3]:
                    os.close(end)
                running[pid] = socket.socket(fileno=ends[3])
                running[pid].sendall(_STATUS.pack(pid))
                continue
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for copy, end in enumerate(ends[:3]):
                os.dup2(end, copy)
            selector.close()
            for sock in (asking, woken, waking, *running.values()):
                sock.detach()
            os.closerange(3, 2**10)
            return request


def _exactly(asking: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        read += asking.recv(size - len(read))
    return read


def _tell_ends(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with running.pop(pid) as ended, suppress(OSError):  # nobody waits for it any more
            ended.sendall(_STATUS.pack(status))


def become(order: dict[str, Any]) -> None:
    """Be the process that was asked for."""
    if order["session"]:
        os.setsid()
    if (group := order["group"]) is not None and group >= 0:
        os.setpgid(0, group)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", buffering=1)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    how, target, *words = order["words"]
    paths = [place for place in sys.path[1:] if place != str(ROOT)]
    sys.path[:] = [os.getcwd() if how == "-m" else "", str(ROOT), *paths]
    sys.argv = [target if how == "-m" else "-c", *words]
    gc.enable()
    if how == "-m":
        runpy.run_module(target, run_name="__main__", alter_sys=True)
        return
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(target, "<string>", "exec"), main.__dict__)


def leave(code: int) -> NoReturn:
    """End as Python does, but leave modules as they are: taking them down is slow."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
    except OSError:
        sys.exit(code)  # as Python itself tells it
    os._exit(code)


def load() -> None:
    """Import what most commands import when they run."""
    gc.disable()
    for package in ("oversight.engine.views.cli", "oversight.engine.views.cli.commands"):
        for module in pkgutil.iter_modules(
            importlib.import_module(package).__path__, f"{package}."
        ):
            importlib.import_module(module.name)
    for command in registered(COMMANDS_GROUP).values():
        importlib.import_module(command.module)
    gc.freeze()


if __name__ == "__main__":
    load()
    order = serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        become(order)
    except SystemExit as left:
        if not isinstance(left.code, int | None):
            raise
        leave(left.code or 0)
    leave(0)
