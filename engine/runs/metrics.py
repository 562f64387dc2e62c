"""A run's figures for a team's dashboards: OpenTelemetry, and Prometheus through it.

The standard variables decide: OTEL_METRICS_EXPORTER is `otlp`, `prometheus` or `console`;
OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_METRIC_EXPORT_INTERVAL, OTEL_EXPORTER_PROMETHEUS_HOST and _PORT
(localhost, 9464), OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME mean what OpenTelemetry says.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from ...cache.extras import install_command
from ..accounting.ledger import UsageTotals
from ..display.progress import Snapshot
from ..errors import UsageError
from .observer import Observer

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics.export import MetricReader

EXPORTER = "OTEL_METRICS_EXPORTER"
EXPORTERS = ("otlp", "prometheus", "console")
SAMPLED_EVERY = 1.0
"""Seconds between two looks at the run; exporters, on threads of their own, see the last one."""
LAST_EXPORT = 3
"""Seconds that a collector has to take the last figures."""

_Figures = tuple[Snapshot, Mapping[str, UsageTotals]]


def metrics_asked() -> bool:
    """Whether the environment asks for metrics."""
    return os.environ.get(EXPORTER, "none") not in ("", "none")


class Metrics(Observer):
    """Hands a run's figures to OpenTelemetry while it runs."""

    def __init__(
        self, accounts: Callable[[], Mapping[str, UsageTotals]], labels: Mapping[str, str]
    ) -> None:
        """accounts: usage by model. labels: attributes of every figure, such as the run's name.

        UsageError for an exporter that is none, or is not installed.
        """
        name = os.environ[EXPORTER]
        if name not in EXPORTERS:
            raise UsageError(f"{EXPORTER}={name}: is none of {', '.join(EXPORTERS)}, none")
        self._accounts, self._labels = accounts, dict(labels)
        self._stack = ExitStack()
        try:
            self._reader = _reader(name, self._stack)
        except ImportError as exc:
            raise UsageError(
                f"{EXPORTER}={name} needs OpenTelemetry: {install_command('metrics')} ({exc})"
            ) from None
        except OSError as exc:
            raise UsageError(f"{EXPORTER}={name}: {exc.strerror}: {_prometheus_address()}") from exc

    @asynccontextmanager
    async def watching(self, snapshot: Callable[[], Snapshot]) -> AsyncIterator[None]:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.resources import Resource

        def look() -> _Figures:
            return snapshot(), dict(self._accounts())

        latest = [look()]

        async def sample() -> None:
            while True:
                await asyncio.sleep(SAMPLED_EVERY)
                latest[0] = look()

        service = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "oversight"}
        resource = Resource.create(service)
        provider = MeterProvider([self._reader], resource, shutdown_on_exit=False)
        self._declare(provider.get_meter("oversight"), lambda: latest[0])
        sampling = asyncio.create_task(sample())
        try:
            yield
        finally:
            sampling.cancel()
            await asyncio.wait([sampling])
            latest[0] = look()
            await _finished_in_time(provider.shutdown)
            self._stack.close()

    def _declare(self, meter: Any, latest: Callable[[], _Figures]) -> None:
        def observed(
            figures: Callable[[_Figures], Iterable[tuple[float, dict[str, str]]]],
        ) -> "Callable[[CallbackOptions], Iterable[Observation]]":
            from opentelemetry.metrics import Observation

            return lambda options: [
                Observation(value, {**self._labels, **more}) for value, more in figures(latest())
            ]

        def counter(name: str, unit: str, help: str, figures: Any) -> None:
            meter.create_observable_counter(name, [observed(figures)], unit, help)

        def gauge(name: str, unit: str, help: str, figures: Any) -> None:
            meter.create_observable_gauge(name, [observed(figures)], unit, help)

        gauge("oversight.cells", "{cell}", "Cells of the run, by state.", _cells)
        counter("oversight.calls", "{call}", "Calls of this session, by who answered.", _calls)
        gauge("oversight.calls.in_flight", "{call}", "Calls on the wire.", _in_flight)
        counter("oversight.requests", "{request}", "Requests to a model, by outcome.", _requests)
        counter("oversight.tokens", "{token}", "Tokens that a model read and wrote.", _tokens)
        counter("oversight.cost", "USD", "Dollars by model since the run began.", _cost)
        gauge("oversight.cost.at_risk", "USD", "Dollars that calls in flight may cost.", _at_risk)


async def _finished_in_time(export: Callable[[], None]) -> None:
    """Export what is left; a collector that is gone keeps neither the loop nor the process."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def last() -> None:
        export()
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(done.set)

    Thread(target=last, daemon=True).start()
    with suppress(TimeoutError):
        await asyncio.wait_for(done.wait(), LAST_EXPORT)


def _cells(now: _Figures) -> Iterable[tuple[float, dict[str, str]]]:
    cells = now[0]
    yield cells.finished - cells.failed, {"state": "completed"}
    yield cells.failed, {"state": "failed"}
    yield cells.total - cells.finished, {"state": "missing"}


def _calls(now: _Figures) -> Iterable[tuple[float, dict[str, str]]]:
    calls = now[0]
    yield calls.stored, {"answered": "store"}
    yield calls.shared, {"answered": "shared"}
    yield calls.calls - calls.stored - calls.shared, {"answered": "model"}


def _in_flight(now: _Figures) -> Iterable[tuple[float, dict[str, str]]]:
    yield now[0].in_flight, {}


def _requests(now: _Figures) -> Iterable[tuple[float, dict[str, str]]]:
    for model, account in now[1].items():
        for outcome, count in account.outcomes:
            yield count, {"model": model, "outcome": outcome}


def _tokens(now: _Figures) -> Iterable[tuple[float, dict[str, str]]]:
    for model, account in now[1].items():
        yield account.usage.input_tokens, {"model": model, "direction": "in"}
        yield account.usage.output_tokens, {"model": model, "direction": "out"}


def _cost(now: _Figures) -> Iterable[tuple[float, dict[str, str]]]:
    for model, account in now[1].items():
        yield account.dollars, {"model": model}


def _at_risk(now: _Figures) -> Iterable[tuple[float, dict[str, str]]]:
    yield now[0].at_risk, {}


def _prometheus_address() -> str:
    host = os.environ.get("OTEL_EXPORTER_PROMETHEUS_HOST", "localhost")
    return f"{host}:{os.environ.get('OTEL_EXPORTER_PROMETHEUS_PORT', '9464')}"


def _reader(name: str, stack: ExitStack) -> "MetricReader":
    """The reader of an exporter. What it opens is closed with the stack."""
    if name == "prometheus":
        import prometheus_client
        from opentelemetry.exporter.prometheus import PrometheusMetricReader

        host, _, port = _prometheus_address().rpartition(":")
        if not port.isdecimal() or int(port) > 65_535:
            raise UsageError(f"OTEL_EXPORTER_PROMETHEUS_PORT={port}: is no port")
        server, thread = prometheus_client.start_http_server(int(port), host)
        stack.callback(thread.join)
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        return PrometheusMetricReader()
    from opentelemetry.sdk.metrics.export import (
        ConsoleMetricExporter,
        MetricExporter,
        PeriodicExportingMetricReader,
    )

    exporter: MetricExporter
    if name == "console":
        import sys

        exporter = ConsoleMetricExporter(out=sys.stderr)
    else:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        exporter = OTLPMetricExporter()
    return PeriodicExportingMetricReader(exporter)
