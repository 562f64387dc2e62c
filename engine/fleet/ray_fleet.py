"""Workers as Ray actors on any machine of a cluster: Ray places them and notices their deaths."""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...cache.extras import install_command
from ..errors import UsageError
from ..runs.executor import Assignment
from ..sweeps.plugins import CodeFile, code_files
from ..system.settings import is_url
from .fleet import Fleet
from .messages import Acknowledgement, Orders, WorkerReport, WorkerSetup
from .worker import Worker
from .worker_handle import WorkerHandle, WorkerLost

try:
    import ray
    from ray.exceptions import RayActorError, RayTaskError
except ImportError as exc:
    raise UsageError(f"--ray needs Ray: {install_command('ray')}") from exc

UNRESPONSIVE_AFTER = 10.0
"""Seconds without a report after which a worker counts as lost: its node may hang or be cut off.
Its grants expired long before."""
CONNECT_TIMEOUT = 5.0
"""Seconds to connect to a cluster."""
LOCAL = "auto"
"""In place of an address: the cluster that the environment names, else one on this machine."""


class WorkerActor:
    """A worker as Ray runs it on a node; it holds nothing durable."""

    _worker: Worker
    """Made by `open`, which comes before all that need it."""

    async def load_code(self, files: tuple[CodeFile, ...]) -> None:
        for file in files:
            file.load()

    async def open(self, setup: WorkerSetup, machine: str) -> None:
        if not is_url(setup.store) and machine != boot_id():
            raise UsageError(
                f"{setup.store} is a folder, and a folder cannot be shared between machines: "
                "name a database with --store postgresql://…"
            )
        self._worker = Worker(setup)

    async def order(self, orders: Orders) -> Acknowledgement:
        return self._worker.order(orders)

    async def report(self, hold: float) -> WorkerReport:
        return await self._worker.report(hold)

    async def close(self, abandon: bool) -> WorkerReport:
        return await self._worker.close(abandon=abandon)


class RayWorker(WorkerHandle):
    """An actor that dies with its owner, and is never restarted by Ray."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    @classmethod
    async def spawn(cls) -> "RayWorker":
        """An actor, scheduled wherever and whenever Ray has room for it."""
        options = {"max_restarts": 0, "max_task_retries": 0, "max_concurrency": 64, "num_cpus": 1}
        remote = ray.remote(**options)(WorkerActor)
        return cls(remote.options(scheduling_strategy="SPREAD").remote())

    async def open(self, setup: WorkerSetup) -> None:
        await self._call("load_code", code_files())
        await self._call("open", setup, boot_id())

    async def order(self, orders: Orders) -> Acknowledgement:
        answer: Acknowledgement = await self._call("order", orders)
        return answer

    async def report(self, hold: float) -> WorkerReport:
        try:
            async with asyncio.timeout(hold + UNRESPONSIVE_AFTER):
                report: WorkerReport = await self._call("report", hold)
                return report
        except TimeoutError:
            raise WorkerLost(
                f"a worker on Ray said nothing for {UNRESPONSIVE_AFTER:.0f} s"
            ) from None

    async def close(self, *, abandon: bool) -> WorkerReport:
        report: WorkerReport = await self._call("close", abandon)
        ray.kill(self._actor)
        return report

    async def kill(self) -> None:
        ray.kill(self._actor)

    async def _call(self, method: str, *args: object) -> Any:
        try:
            return await getattr(self._actor, method).remote(*args)
        except RayActorError as exc:
            raise WorkerLost("a worker on Ray is gone") from exc
        except RayTaskError as exc:
            raise exc.cause from exc


class RayFleet(Fleet):
    """A fleet on a Ray cluster, for as long as it is open."""

    def __init__(self, assignment: Assignment, *, address: str, **settings: Any) -> None:
        """address: of a cluster, or `auto`. settings: see `Fleet`. UsageError if there is none."""
        super().__init__(assignment, spawn=RayWorker.spawn, **settings)
        # Ray reports usage statistics to its vendor unless it is told not to.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address != LOCAL:
            _refuse_unreachable(address)
        self._stdout = ExitStack()
        self._stdout.enter_context(_stdout_on_stderr())
        try:
            ray.init(
                None if address == LOCAL else address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                include_dashboard=False if address == LOCAL else None,
            )
        except (ConnectionError, ValueError, RuntimeError) as exc:
            self._stdout.close()
            raise UsageError(f"--ray {address}: {exc}") from exc

    async def close(self) -> None:
        try:
            await super().close()
            await asyncio.to_thread(ray.shutdown)
        finally:
            self._stdout.close()


def boot_id() -> str:
    """Equal for all processes of one machine between two boots."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@contextmanager
def _stdout_on_stderr() -> Iterator[None]:
    """Send what Ray prints, in its processes and in this one, to stderr: stdout is for the result,
    which comes after the fleet is closed."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _refuse_unreachable(address: str) -> None:
    """UsageError if nothing listens there: Ray itself would try for minutes."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        if not parts.hostname or not parts.port:
            raise ValueError("an address is written as HOST:PORT")
        socket.create_connection((parts.hostname, parts.port), CONNECT_TIMEOUT).close()
    except (OSError, ValueError) as exc:
        raise UsageError(f"--ray {address}: no cluster can be reached there: {exc}") from exc
