"""Following the batches of one run: looks for those of unknown fate, polls those that are out, and
collects results.

A batch has ended only when the lines that can be read are as many as the vendor counts.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from ...errors import (
    BatchRefused,
    Halt,
    InvalidRequest,
    ModelNotFound,
    ProviderDown,
)
from ...models.router import Models
from ...providers.catalogue import batch_wire
from ...providers.fault import ErrorAnswer
from ...run.listing import is_run
from ...stop import StopToken
from .anthropic_endpoint import AnthropicEndpoint
from .books import BatchBooks
from .endpoint import CLOCK_SLACK, BatchEndpoint, BatchState, Lost
from .journal import Submission
from .openai_endpoint import OpenAIEndpoint
from .retrying import Retries, backoff, retried

Step: TypeAlias = Callable[[BatchEndpoint, str, Submission], Awaitable[bool]]

SETTLE = 180.0
"""Seconds for which a batch is looked for that the vendor said it could not make."""
NOT_FOUND_SECONDS = 120.0
"""Seconds for which a vendor may deny a batch that it has made."""
MAX_DOWNLOADS = 6
"""Downloads of results that lack lines after which the run stops."""
QUEUE_FULL = "token_limit_exceeded"
"""OpenAI's code for a queue that has no room for a batch just now."""

log = logging.getLogger(__name__)


ENDPOINTS: dict[str, type[BatchEndpoint]] = {
    "openai": OpenAIEndpoint,
    "anthropic": AnthropicEndpoint,
}
"""By provider."""


class Dispatch:
    """All batches of one run that may be out. Raises only Halts and RunFolderErrors."""

    def __init__(self, books: BatchBooks, models: Models, stop_token: StopToken) -> None:
        self.back: dict[str, int] = {}
        """By batch that is out, how many of its lines the vendor has done."""
        self._books = books
        self._journal = books.journal
        self._stop = stop_token
        self._models = models
        self._endpoints: dict[str, BatchEndpoint] = {}
        """By provider and API, made when they are first asked for."""
        self._cancelled: set[str] = set()
        self._later = Retries()
        """By id or mark."""
        self._full = 0
        """How often in a row a queue had no room."""

    def endpoint(self, model: str) -> BatchEndpoint:
        settings = self._models.settings_of(model)
        name = f"{settings.provider} {settings.api}"
        if name not in self._endpoints:
            made = ENDPOINTS[settings.provider](settings, batch_wire(settings))
            self._endpoints[name] = made
        return self._endpoints[name]

    async def close(self) -> None:
        for endpoint in self._endpoints.values():
            await endpoint.close()

    def recover(self) -> None:
        """Free the calls of batches whose request had not left when their process ended."""
        for mark, batch in list(self._journal.intended.items()):
            if mark not in self._journal.sending:
                self._books.drop(batch)

    async def poll(self) -> bool:
        """Look for batches of unknown fate, check those that are out, and collect what has ended.

        Whether there is anything new: replies, or calls that are free again and could go out now.
        """
        news, stops = False, None
        down = set[BatchEndpoint]()
        steps: list[tuple[str, Submission, Step]] = [
            *((mark, batch, self._look_for) for mark, batch in self._journal.liabilities.items()),
            *((id, batch, self._check) for id, batch in self._journal.out.items()),
        ]
        for name, batch, step in steps:
            endpoint = self.endpoint(batch.model)
            if endpoint in down or not self._later.is_due(name):
                continue
            try:
                news = await step(endpoint, name, batch) or news
            except Halt as halt:
                # Other batches that have ended are collected before the run stops.
                self._stop.raise_if_stopped()
                stops = stops or halt
                if isinstance(halt, ProviderDown):
                    down.add(endpoint)
        if stops is not None:
            raise stops
        return news

    async def cancel(self) -> None:
        """Have the vendors stop what is out. Until a batch has ended, its calls stay with it. What
        is not proven to be ours is left alone."""
        for id, batch in list(self._journal.out.items()):
            if id not in self._cancelled:
                # One that has ended meanwhile cannot be cancelled; the next poll says so.
                with suppress(InvalidRequest, ModelNotFound):
                    await retried(self._stop, self.endpoint(batch.model).cancel, id)
                self._cancelled.add(id)

    async def give_up(self, name: str) -> None:
        """Take what can be had of a batch; the rest counts as lost, and as doubtful.

        name: the id of one that is out, or the mark of one of unknown fate.
        """
        self._journal.give_up(name)
        batch = self._journal.out.get(name) or self._journal.liabilities[name]
        endpoint = self.endpoint(batch.model)
        if name not in self._journal.out:
            return await self._land(endpoint, name, batch, self._books.no_results(batch), "Missing")
        self._later.forget(name)
        await self._check(endpoint, name, batch)

    async def _look_for(self, endpoint: BatchEndpoint, mark: str, batch: Submission) -> bool:
        """Look for a batch of unknown fate at the vendor; whether its calls are free again."""
        since, open_ended = self._journal.sending[mark], False
        for each in await retried(self._stop, endpoint.candidates, batch, since):
            if each.id in self._journal.known or (mark, each.id) in self._journal.others:
                continue
            ours = each.mark == mark or await self._is_ours(endpoint, each.id, batch)
            if ours:
                self._journal.submitted(mark, each.id)
                self._later.forget(mark)
                return False
            open_ended = open_ended or ours is None
        denied = mark in self._journal.denied and self._later.seconds_since(mark) >= SETTLE
        passed = endpoint.now() > since + endpoint.window + CLOCK_SLACK
        if (denied or passed) and not open_ended:
            self._books.drop(batch)
            self._later.forget(mark)
            return True
        self._later.put_off(mark)
        return False

    async def _is_ours(self, endpoint: BatchEndpoint, id: str, batch: Submission) -> bool | None:
        """Whether a batch of the account is this one, by the custom ids in its results; None as
        long as they cannot be read."""
        state = await retried(self._stop, endpoint.state, id)
        if not state.ended:
            return None
        file = await self._downloaded(endpoint, id, batch, state)
        ours, others = self._books.readable(endpoint, batch, file)
        file.unlink()
        if not ours and not others:
            return None
        if others or not ours:
            self._journal.foreign(batch.mark, id)
        return not others

    async def _check(self, endpoint: BatchEndpoint, id: str, batch: Submission) -> bool:
        """The state of a batch that is out; collects it once it has ended. Whether it has."""
        given_up = id in self._journal.given_up
        try:
            state = await retried(self._stop, endpoint.state, id)
            self.back[id] = state.done
            if not state.ended:
                self._later.forget(id)
                return False
            if state.fault is not None:
                del self.back[id]
                return await self._refused(id, batch, state.fault)
            file = await self._downloaded(endpoint, id, batch, state)
        except (InvalidRequest, ModelNotFound) as exc:
            if not given_up:
                return self._denied(id, batch, exc)
            state, file = BatchState(0, True), self._books.no_results(batch)
        ours, _ = self._books.readable(endpoint, batch, file)
        counted = batch.lines if state.results is None else state.results
        if ours < min(counted, batch.lines) and not given_up:
            return self._short(id, batch, state, ours)
        self._later.forget(id)
        self.back.pop(id, None)
        await self._land(endpoint, id, batch, file, state.absent)
        return True

    async def _downloaded(
        self, endpoint: BatchEndpoint, id: str, batch: Submission, state: BatchState
    ) -> Path:
        """The file of what the vendor says are the results, or as much as it made sense."""
        file = self._books.no_results(batch)
        for name in state.files:
            got = await retried(self._stop, endpoint.download, name, file, batch.most_bytes)
            if not got:
                log.warning("the results of %s are larger than its calls allow", id)
        return file

    def _short(self, id: str, batch: Submission, state: BatchState, found: int) -> bool:
        """Have results that lack lines downloaded again, up to a point; False."""
        tries = self._later.put_off(id)
        if tries < MAX_DOWNLOADS:
            return False
        stated = (
            "no count" if state.results is None else f"{state.results:,} by the vendor's counts"
        )
        raise BatchRefused(
            f"the batch {id} of {batch.model} has ended ({state.status}), and {found:,} of its "
            f"{batch.lines:,} lines can be read ({stated}). {tries} downloads brought no more; "
            f"nothing is asked again. {self._way_on(id, batch)}"
        )

    def _denied(self, id: str, batch: Submission, exc: Exception) -> bool:
        """Wait for a vendor that denies a batch, up to a point; False."""
        self._later.put_off(id)
        if self._later.seconds_since(id) < NOT_FOUND_SECONDS:
            return False
        raise BatchRefused(
            f"{exc}. The vendor has not known the batch {id} for a while: it was handed in with "
            "another key, or another project or address; put that back, and the same command "
            f"collects it. {self._way_on(id, batch)}"
        )

    def _way_on(self, name: str, batch: Submission) -> str:
        run = self._journal.folder.parent
        most = f", ${batch.worst:.2f} at most" if batch.worst else ""
        if not is_run(run):
            return (
                f"The same command looks again. Without {run}, which keeps what is known of it, "
                f"its calls are asked again, and may be paid twice{most}"
            )
        return (
            f"The same command looks again. Only to count what is lost of it as spent{most}, and "
            f"to ask those calls again: oversight batches cancel {run} --give-up {name}"
        )

    async def _land(
        self, endpoint: BatchEndpoint, id: str, batch: Submission, file: Path, absent: Lost
    ) -> None:
        self._full = 0
        await self._books.land(endpoint, id, batch, file, absent)

    async def _refused(self, id: str, batch: Submission, fault: ErrorAnswer) -> bool:
        """Handle a batch refused as a whole; whether to go on without waiting for others."""
        queued = self._books.queued(batch.model)
        self._journal.refused(id, str(fault))
        self._books.discard(batch, 0.0)
        if fault.code != QUEUE_FULL:
            error = fault.error()
            if isinstance(error, Halt):
                raise error
            raise BatchRefused(f"{error}; no call of that batch was asked")
        self._journal.learn(batch.model, queued / 2)
        if self._books.queued(batch.model):
            return False
        # Nothing of ours is in the queue: others fill it, or the batch alone was too large.
        self._full += 1
        await self._stop.sleep(backoff(self._full))
        return True
