"""A run as logs of Inspect: one log per row, one sample per world.

Written by Inspect's `write_eval_log`, since the format of `.eval` files may change. The same run
gives the same bytes: ids are derived from row, problem, answer and draw (`samples_df` drops samples
that share a `uuid`), times are the recording times of replies, and dates in the file are fixed."""

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5
from zipfile import ZipFile, ZipInfo

from ....cache.call import store_key
from ....cache.entry import read_entry
from ....cache.errors import install_command
from ....cache.store import Reader
from ....protocols.scores import ALL_SCORES
from ....protocols.transcript import Failure, Verdict
from ...analysis.reports.results import RowResult, collect
from ...errors import UsageError
from ...run.listing import Parts
from ...run.lookup import rows_that_fit
from ...run.reader import Place, RunReader
from ...run.record.values import LeftOut, RecordedCall, RecordedCell, turns_of

try:
    from inspect_ai import event, log, model
    from inspect_ai.scorer import Score
except ImportError as exc:
    raise UsageError(f"this needs inspect-ai: {install_command('inspect')}") from exc

NO_MODEL = "none/none"
"""Name of the agent's model for a protocol without an agent."""
FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of every member of a log, the earliest that zip files can hold."""
DIGITS = 6
"""Decimal places of scores."""
OUTCOMES = {"ok": "stop", "truncated": "max_tokens", "refused": "content_filter", "empty": "stop"}
"""Inspect's name of each outcome of a reply."""
MESSAGES = {
    "system": model.ChatMessageSystem,
    "user": model.ChatMessageUser,
    "assistant": model.ChatMessageAssistant,
    "tool": model.ChatMessageTool,
}


def write_logs(
    run: RunReader,
    parts: Parts,
    score: str,
    requests: Callable[[], AbstractContextManager[Reader]] | None,
    folder: Path,
) -> list[Path]:
    """Write a log for each matching row into a folder; the files, row by row. requests: opens the
    store with the requests; None leaves them out. UsageError if no row matches; RunFolderError
    without a record."""
    numbers = rows_that_fit(run, parts)
    results = collect(run.sweep, run.outcomes(), score=score, mixed=run.manifest.mixed)
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        store = stack.enter_context(requests()) if requests else None
        return [
            _RowLog(run, number, results.rows[number], score, store).write(folder)
            for number in numbers
        ]


class _RowLog:
    """The log of one row."""

    def __init__(
        self, run: RunReader, number: int, result: RowResult, score: str, store: Reader | None
    ) -> None:
        self._run, self._number, self._result = run, number, result
        self._score, self._store = score, store
        self._row = run.sweep.rows[number]
        self._name = f"oversight {run.manifest.identity} {self._row.address or number}"
        # The recording times of the first and last reply; 1970 if unknown.
        ((first, last),) = run.tables.fetched("SELECT min(at), max(at) FROM calls")
        self._began, self._ended = (datetime.fromtimestamp(at or 0, UTC) for at in (first, last))

    def write(self, folder: Path) -> Path:
        eval_log = self._log()
        spec, began = eval_log.eval, re.sub(r"[:+]", "-", self._began.isoformat(timespec="seconds"))
        path = folder / f"{began}_{spec.task}_{spec.task_id}.eval"
        unfinished = path.with_name(f".{path.name}")
        unfinished.unlink(missing_ok=True)  # opening a pipe of that name would block
        try:
            log.write_eval_log(eval_log, str(unfinished), format="eval")
            _fix_dates(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
        return path

    def _log(self) -> Any:
        row, run = self._row, self._run
        places = [
            place
            for problem in range(len(run.problems))
            for draw in range(run.sweep.draws)
            for place in run.worlds(Place(self._number, problem, draw))
        ]
        cells = run.cells(places)
        ended = [cells[place] for place in places if place in cells]
        samples = [self._sample(cell) for cell in ended if not isinstance(cell.outcome, LeftOut)]
        ids = list(dict.fromkeys(sample.id for sample in samples))
        began = self._began.isoformat(timespec="seconds")
        spec = log.EvalSpec(
            eval_id=self._id("eval"),
            run_id=self._id("run"),
            task_id=self._id("task"),
            created=began,
            # Readers split the name of the file at underscores.
            task=re.sub(r"[^A-Za-z0-9]+", "-", row.kind).strip("-"),
            task_args={"protocol": row.kind, "agent": row.agent, "judge": row.judge},
            dataset=log.EvalDataset(
                name=run.sweep.name, samples=len(ids), sample_ids=ids, shuffled=False
            ),
            model=row.axes.model or NO_MODEL,
            model_roles={"judge": model.ModelConfig(model=row.axes.judge_model or row.judge)},
            config=log.EvalConfig(epochs=run.sweep.draws),
            packages={"inspect_ai": version("inspect_ai"), "oversight-bench": run.manifest.version},
            metadata={
                "sweep": run.sweep.name,
                "identity": run.manifest.identity,
                "row": row.address,
                "settings": dict(row.settings),
                "prompts": run.sweep.prompts,
            },
        )
        return log.EvalLog(
            # A world without a verdict is an error of its sample, not of the evaluation.
            status="success",
            eval=spec,
            results=self._results(samples),
            stats=log.EvalStats(
                started_at=began,
                completed_at=self._ended.isoformat(timespec="seconds"),
                model_usage=_usage_by_model(call for cell in ended for call in cell.calls),
            ),
            samples=samples,
        )

    def _results(self, samples: list[Any]) -> Any:
        result = self._result
        estimates = {"asd": result.asd, "lift": result.lift}
        estimates |= {f"jse_{beta:g}": estimate for beta, estimate in result.jse.items()}
        metrics = {
            name: log.EvalMetric(
                name=name,
                value=estimate.value,
                metadata={"interval": estimate.interval, "n": result.n},
            )
            for name, estimate in estimates.items()
            # A value must be a number.
            if estimate is not None and estimate.value == estimate.value
        }
        scored = sum(sample.error is None for sample in samples)
        score = log.EvalScore(
            name="agent_score",
            scorer=f"oversight/{self._score}",
            scored_samples=scored,
            unscored_samples=len(samples) - scored,
            metrics=metrics,
        )
        return log.EvalResults(total_samples=len(samples), completed_samples=scored, scores=[score])

    def _sample(self, cell: RecordedCell) -> Any:
        problem = self._run.problems[cell.problem]
        question, outcome = problem.question, cell.outcome
        label = question.answers[cell.side].label
        world = f"{problem.id} {label} {cell.draw}"
        value = problem.values[cell.side]
        metadata: dict[str, Any] = {
            "problem": problem.id,
            "side": label,
            "value": value,
            "best": cell.side == problem.best,
            "group": problem.group,
            "protocol": self._row.kind,
            "agent": self._row.agent,
            "judge": self._row.judge,
            "cell": cell.id,
            "draw": cell.draw,
        }
        scores, output, error = {}, model.ModelOutput(), None
        if isinstance(outcome, Verdict):
            probs = {a.label: p for a, p in zip(question.answers, outcome.probs, strict=True)}
            judgement = next((judgement.text for judgement in outcome.judgements), "")
            metadata |= {"measures": dict(outcome.measures), "probs": probs}
            best = [n for n, value in enumerate(problem.values) if value == max(problem.values)]
            names = {
                "agent_score": (self._score, [cell.side]),
                "log": ("log", [cell.side]),
                "agent_accuracy": ("accuracy", [cell.side]),
                "judge_right": ("accuracy", best),
            }
            scores = {
                name: Score(
                    value=round(sum(ALL_SCORES[score](outcome.probs, n) for n in answers), DIGITS),
                    answer=label,
                    explanation=judgement or None,
                    metadata={"probs": probs},
                )
                for name, (score, answers) in names.items()
            }
            judge_model = self._row.axes.judge_model or ""
            output = self._output(judge_model, judgement, "stop", f"{world} end")
        else:
            cause = f"{outcome.kind}: {outcome.message}" if isinstance(outcome, Failure) else ""
            error = log.EvalError(message=cause, traceback=cause, traceback_ansi=cause)
        began, ended = self._times(cell)
        return log.EvalSample(
            id=f"{problem.id}|{label}",
            epoch=cell.draw + 1,
            input=question.text,
            choices=[answer.text for answer in question.answers],
            target=question.answers[problem.best].label,
            messages=self._messages(cell, world),
            output=output,
            scores=scores or None,
            metadata=metadata,
            events=list(self._events(cell, world, scores)),
            uuid=self._id(world),
            error=error,
            model_usage=_usage_by_model(cell.calls),
            started_at=began.isoformat(),
            completed_at=ended.isoformat(),
            total_time=(ended - began).total_seconds(),
        )

    def _messages(self, cell: RecordedCell, world: str) -> list[Any]:
        """The question, then the turns."""
        question = self._run.problems[cell.problem].question
        choices = "\n".join(f"({answer.label}) {answer.text}" for answer in question.answers)
        text, id = f"{question.text}\n\n{choices}", self._id(f"{world} question")
        messages: list[Any] = [model.ChatMessageUser(id=id, content=text)]
        messages += [
            model.ChatMessageAssistant(
                id=self._id(f"{world} turn {n}"),
                content=f"{turn.speaker}: {turn.text}",
                metadata={"speaker": turn.speaker, "side": turn.side and turn.side.label},
            )
            for n, turn in enumerate(turns_of(cell.outcome, cell.calls, question))
        ]
        return messages

    def _events(self, cell: RecordedCell, world: str, scores: Mapping[str, Any]) -> Iterator[Any]:
        """A span with every call of the world, in recorded order, and its scores."""
        span = self._id(f"{world} span")
        began, ended = self._times(cell)

        def about(item: str, at: datetime) -> dict[str, Any]:
            id = self._id(f"{world} {item}")
            return {"uuid": id, "span_id": span, "timestamp": at, "working_start": 0.0}

        yield event.SpanBeginEvent(
            id=span, name=self._row.kind, type="solver", **about("begin", began)
        )
        for n, call in enumerate(cell.calls):
            cost = call.cost
            at = began if cost.at is None else datetime.fromtimestamp(cost.at, UTC)
            stop, reasoning = OUTCOMES[call.outcome], call.reasoning
            output = self._output(call.model, call.text, stop, f"{world} {n}", reasoning)
            output.usage = _usage(call)
            yield event.ModelEvent(
                **about(f"call {n}", at),
                model=call.model,
                role=call.role or None,
                input=self._request(call, f"{world} {n}"),
                tools=[],
                tool_choice="none",
                config=model.GenerateConfig(),
                output=output,
                cache="read" if cost.origin == "stored" else None,
                completed=at,
                metadata={
                    "address": call.address,
                    "seat": call.seat,
                    "heard": call.heard,
                    "draw": list(call.draw),
                },
            )
        for name, score in scores.items():
            yield event.ScoreEvent(**about(f"score {name}", ended), score=score, scorer=name)
        yield event.SpanEndEvent(id=span, **about("end", ended))

    def _times(self, cell: RecordedCell) -> tuple[datetime, datetime]:
        """The recording times of the first and last reply of a cell, in whole seconds."""
        times = [call.cost.at for call in cell.calls if call.cost.at is not None]
        if not times:
            return self._began, self._began
        return datetime.fromtimestamp(min(times), UTC), datetime.fromtimestamp(max(times), UTC)

    def _request(self, call: RecordedCall, item: str) -> list[Any]:
        """The messages that were sent, if the store has them."""
        key = store_key(call.address, call.cost.identity)
        value = self._store.get(key) if self._store else None
        stored = read_entry(key, value) if value else None
        if stored is None or not stored.call_size:
            return []
        return [
            MESSAGES[message.role](id=self._id(f"{item} message {n}"), content=message.text)
            for n, message in enumerate(stored.call().messages)
        ]

    def _output(self, served: str, text: str, stop: str, item: str, reasoning: str = "") -> Any:
        content: Any = text
        if reasoning:
            content = [model.ContentReasoning(reasoning=reasoning), model.ContentText(text=text)]
        message = model.ChatMessageAssistant(
            id=self._id(f"{item} output"), content=content, model=served
        )
        return model.ModelOutput(
            model=served, choices=[model.ChatCompletionChoice(message=message, stop_reason=stop)]
        )

    def _id(self, item: str) -> str:
        """An id that is unique to this run, and the same in each export of it."""
        return str(uuid5(NAMESPACE_URL, f"{self._name} {item}"))


def _usage(call: RecordedCall) -> Any:
    cost = call.cost
    return model.ModelUsage(
        input_tokens=cost.input_tokens,
        output_tokens=cost.output_tokens,
        total_tokens=cost.input_tokens + cost.output_tokens,
        input_tokens_cache_read=cost.cache_read_tokens,
        input_tokens_cache_write=cost.cache_write_tokens,
    )


def _usage_by_model(calls: Iterable[RecordedCall]) -> dict[str, Any]:
    """Tokens of these calls by model, each call once."""
    usage: dict[str, Any] = {}
    for call in {call.address: call for call in calls}.values():
        usage[call.model] = usage.get(call.model, model.ModelUsage()) + _usage(call)
    return usage


def _fix_dates(file: Path, to: Path) -> None:
    """Copy a zip file with fixed dates of its members."""
    with ZipFile(file) as source, ZipFile(to, "w") as target:
        for member in source.infolist():
            copy = ZipInfo(member.filename, FIRST_DATE)
            copy.compress_type = member.compress_type
            with source.open(member) as content, target.open(copy, "w", force_zip64=False) as out:
                shutil.copyfileobj(content, out)
