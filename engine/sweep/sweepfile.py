"""The sweep file: reads and checks the YAML, and builds a `Sweep` with its run settings.

Checks that the models and providers for which a sweep file has settings exist.

Otherwise a misspelt name would go unnoticed: limits would not apply, or calls and a key would go to
a vendor's default address instead of the intended one."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import orjson

from ...protocols.datasets.loader import copies_line, grouped, overlap
from ...protocols.judges.judge import Judge
from ...protocols.judges.stated import StatedJudge
from ...protocols.prompts.prompt_set import PromptSet
from ...protocols.protocol import Protocol
from ...protocols.question import Problem, Question
from ...protocols.settings import Parameters
from ..errors import UsageError
from ..providers.catalogue import context_window, provider_names, provider_of
from ..providers.simulated import PREFIX
from ..tokens import BYTES_A_TOKEN
from .code import with_user_code
from .document import Document, Faults, Key, Node, filled
from .grid import MAX_CELLS
from .loading import load_problems, problems_of
from .roles import MakeSpeaker, agents, judges, protocols, words_of
from .sweep import Row, Sweep, dataclasses_in, report_rows

MAX_CELLS_AT_ONCE = 100_000
"""Maximum number of cells under way at once; each takes some kilobytes."""


@dataclass(frozen=True, slots=True)
class Top:
    """The top-level settings of a sweep file, without its sections."""

    name: str
    """Names the run folder; the file's own name unless given."""
    seed: int = 0
    """Seed of all randomness but the models': the order of answers, the problems of a sample."""
    draws: int = 1
    """Number of repetitions of the whole grid with fresh samples."""
    max_cells: int | None = None
    """Maximum number of cells running at once. Default: slightly above the models' total
    concurrency where known, and at least 256."""
    grid: Literal["refuse", "skip"] = "refuse"
    """If a row duplicates another or cannot run: refuse the sweep, or skip the row with a note."""
    interval: Literal["t", "conservative"] = "t"
    """Intervals of reports, comparisons and plots: cluster-robust t, or conservative."""
    contrast: str = ""
    """The difference that the report prints, averaged over matching rows, and `plan` takes, such as
    `debate - consultancy`."""

    def __post_init__(self) -> None:
        plain = self.name.isprintable() and "/" not in self.name and len(self.name.encode()) < 200
        if not plain or self.name[:1] in ("", "."):
            raise ValueError(f"name: {self.name!r} cannot name a folder; use words")
        if self.contrast and len([*filter(str.strip, self.contrast.split(" - "))]) != 2:
            raise ValueError(f"contrast: {self.contrast!r} is not 'A - B'; name two rows")
        if self.draws < 1:
            raise ValueError(f"draws: {self.draws} is less than 1")
        if self.max_cells is not None and not 1 <= self.max_cells <= MAX_CELLS_AT_ONCE:
            raise ValueError(
                f"max_cells: {self.max_cells} is not between 1 and {MAX_CELLS_AT_ONCE:,}"
            )


SECTIONS = (
    "problems", "agents", "judges", "protocols", "models", "providers", "prompts", "labels",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SweepFile:
    """A sweep file, read and checked."""

    document: Document
    top: Top
    problems: tuple[Problem, ...]
    protocols: tuple[Protocol, ...]
    models: Mapping[str, Mapping[str, Any]]
    """Model -> settings: limits, or the parameters of a simulated model."""
    providers: Mapping[str, Mapping[str, Any]]
    """Provider -> settings: base URL of a compatible server, and the variable with its key."""
    prompts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Contents of the prompt set files, which the run folder keeps."""
    notes: tuple[str, ...] = ()
    """Rows that were left out under `grid: skip`, and why."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """By protocol, agent or judge, as the report names it: its display name."""
    pins: tuple[str, ...] = ()
    """Assignments that make definite which data were read, as `--set` takes them."""
    limit: int | None = None
    """The most problems that were taken, from the front; None for all."""
    data_notes: tuple[str, ...] = ()
    """Rows of the data sets that were skipped, options that were merged, and copied questions."""

    @property
    def overrides(self) -> tuple[str, ...]:
        """What `--set` has to say so that the file says the same again."""
        return *self.document.overrides, *self.pins

    def sweep(self, identities: Mapping[str, str]) -> Sweep:
        """The grid of cells. identities: model -> identity of the endpoint that answers for it.
        UsageError for more than `MAX_CELLS` cells."""
        grid = Sweep(
            self.top.name,
            self.problems,
            self._labelled(tuple(with_user_code(report_rows(self.protocols)))),
            self.top.draws,
            self.top.seed,
            identities,
            meanings={m: s["is"] for m, s in self.models.items() if "is" in s},
            interval=self.top.interval,
            contrast=self.top.contrast,
        )
        if (cells := grid.size) > MAX_CELLS:
            raise self.document.fault(
                ("draws",),
                f"{self.top.draws:,} draws make {cells:,} cells, and a sweep has {MAX_CELLS:,} at "
                "most",
                "take fewer draws, or several sweeps: calls in common are paid once",
            )
        return grid

    def _labelled(self, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        names = {name for row in rows for name in (row.kind, row.agent, row.judge) if name}
        for name in self.labels:
            if name not in names:
                raise self.document.unknown(("labels", name), sorted(names))
        return tuple(replace(row, labels={**row.labels, **self.labels}) for row in rows)


def read_sweep_file(
    path: Path,
    overrides: Iterable[str] = (),
    limit: int | None = None,
    *,
    inert: str = "",
    is_users: bool = True,
) -> SweepFile:
    """Read and check a whole sweep file; nothing is sent. overrides: `a.b=c` of `--set`. limit:
    maximum number of problems, taken from the front. inert, is_users: as in `Document.make_inert`,
    for the file of a run folder or the user's replacement. UsageError names file, line, key, value
    and remedy."""
    document = Document.read(path)
    document.make_inert(inert, is_users)
    for assignment in overrides:
        document.set(assignment)
    sweep = checked_sweep(document, path)
    return sweep if limit is None else replace(sweep, problems=sweep.problems[:limit], limit=limit)


def checked_sweep(
    document: Document,
    path: Path,
    problems: tuple[Problem, ...] | None = None,
    prompts: Mapping[str, Mapping[str, str]] | None = None,
) -> SweepFile:
    """The checked sweep of a document. path: its file, for relative paths and the default name.
    problems, prompts: those stored in a run folder, used instead of those the document names."""
    value = document.value
    tops = {field.name for field in fields(Top)}
    faults = Faults()
    for name in value:
        with faults.noted():
            if name not in tops and name not in SECTIONS:
                raise document.unknown((name,), [*sorted(tops), *SECTIONS])
    lacking = [name for name in ("problems", "judges", "protocols") if not value.get(name)]
    for section in lacking:
        with faults.noted():
            raise document.fault(
                (),
                f"has no section {section!r}",
                "a sweep needs problems, judges and protocols, and agents for all but the naive "
                "judge",
            )
    if lacking:
        faults.raise_if_any()
    settings = {name: setting for name, setting in value.items() if name in tops}
    top = Top(path.stem)
    with faults.noted():
        top = filled(Node(document, (), {"name": path.stem} | settings), Top)
    section_of = partial(Node.section, document)
    pins: tuple[str, ...] = ()
    data_notes: tuple[str, ...] = ()
    if problems is None:
        with faults.noted():
            problems, pins, data_notes = _problems(section_of("problems"), path.parent, top.seed)
    sets: Sequence[PromptSet] = ()
    read: Mapping[str, Mapping[str, str]] = {}
    with faults.noted():
        words = words_of(section_of("protocols"))
        sets = (words,)
        if "prompts" in value:
            from .named_files import prompt_sets

            sets, read = prompt_sets(document, path.parent, words, prompts)
    notes: list[str] = []
    # In place of roles that are wrong, so that the protocols are checked as well.
    seats: list[MakeSpeaker] = [lambda judge: judge.base_agent]
    benches: list[Judge] = [StatedJudge("sim/judge")]
    listed: tuple[Protocol, ...] = ()
    with faults.noted():
        seats = agents(section_of("agents")) if value.get("agents") else []
    with faults.noted():
        benches = judges(section_of("judges"))
    with faults.noted():
        skipped = notes if top.grid == "skip" else None
        listed = tuple(protocols(section_of("protocols"), seats, benches, sets, skipped))
    notes += _unpinned_hosts(listed)
    if read:
        from .named_files import unsuitable_agents

        notes += unsuitable_agents(listed)
    labels: dict[str, str] = {}
    with faults.noted():
        labels = _labels(section_of("labels")) if value.get("labels") else {}
    faults.raise_if_any()
    assert problems is not None, "a fault was noted otherwise"
    check_fit(document, listed, problems)
    return SweepFile(
        document,
        top,
        problems,
        listed,
        _by_name(section_of("models")),
        _by_name(section_of("providers")),
        read,
        tuple(dict.fromkeys((*data_notes, *notes))),
        labels,
        pins,
        data_notes=data_notes,
    )


def _unpinned_hosts(protocols: Iterable[Protocol]) -> Iterator[str]:
    """A note for the models of OpenRouter that any of its hosts may serve."""
    roles = [part for part in dataclasses_in(list(protocols)) if isinstance(part, Parameters)]
    pairs = {(str(getattr(role, "model", "")), role.extra_body or "{}") for role in roles}
    models = {
        model
        for model, body in pairs
        if model.startswith("openrouter/") and "provider" not in orjson.loads(body)
    }
    for model in sorted(models):
        yield (
            f"{model}: replies may come from hosts of different precision; pin one with "
            "extra_body: {provider: {order: [HOST], allow_fallbacks: false}}"
        )


def _labels(node: Node) -> dict[str, str]:
    """The display names of protocols, agents and judges."""
    labels: dict[str, str] = {}
    for name, setting in node.settings().items():
        label = setting.value
        if not isinstance(label, str) or not label.strip() or not label.isprintable():
            raise setting.fault(f"{label!r} is not a label: write one line of text")
        if label in labels.values():
            raise setting.fault(f"{label!r} is the label of another name already")
        labels[name] = label
    return labels


def _problems(
    node: Node, folder: Path, seed: int
) -> tuple[tuple[Problem, ...], tuple[str, ...], tuple[str, ...]]:
    """Problems of all data sets in order, pins, notes on left-out rows. UsageError for twin ids."""
    problems: dict[str, Problem] = {}
    pins: list[str] = []
    notes: list[str] = []
    faults = Faults()
    for data_set in node.settings().values():
        with faults.noted():
            loaded = load_problems(data_set, folder, seed)
            pins += loaded.pins
            notes += loaded.notes
            for problem in loaded.problems:
                if problem.id in problems:
                    raise data_set.fault(f"the problem {problem.id!r} already exists")
                problems[problem.id] = problem
    faults.raise_if_any()
    grouped_problems = grouped(problems.values())
    return grouped_problems, tuple(pins), (*notes, *copies_line(grouped_problems))


def check_fit(
    document: Document, protocols: Sequence[Protocol], problems: Sequence[Problem]
) -> None:
    """Check that every protocol can run on every problem."""
    for section, items in (("problem", problems), ("protocol", protocols)):
        if not items:
            raise document.fault((f"{section}s",), f"at least one {section} is required")
    # The check that all protocols share depends on the number of answers alone.
    shapes = {len(problem.values): problem for problem in reversed(problems)}

    def check(every: Iterable[Problem], fits: Callable[[Question], None]) -> None:
        for problem in every:
            try:
                fits(problem.question)
            except ValueError as exc:
                raise document.fault(("problems",), f"{problem.id}: {exc}") from None

    for protocol in protocols:
        shared_check = type(protocol).check is Protocol.check
        check(shapes.values() if shared_check else problems, protocol.check)
    judges_with_checks = {
        id(part): part
        for part in dataclasses_in(tuple(protocols))
        if isinstance(part, Judge) and type(part).check is not Judge.check
    }
    for judge in judges_with_checks.values():
        room = BYTES_A_TOKEN * context_window(judge.base_agent.model) or math.inf
        check(problems, partial(judge.check, room=room))
    if shared := overlap(problems, problems_of(protocols)):
        first, count = shared[0][0], len({problem for problem, _ in shared})
        raise document.fault(
            ("problems",),
            f"{first}: stands among the examples of a judge as well, by its id or its text, and "
            f"they tell its right answer ({count} of {len(problems):,} problems do); take other "
            "examples, leave it out, or rename it where it is another question",
        )


def _by_name(section: Node) -> dict[str, dict[str, Any]]:
    """Name -> settings of a section, for models and for providers."""
    return {
        name: {key: setting.value for key, setting in node.settings().items()}
        for name, node in section.settings().items()
    }


COMPATIBLE = "compatible"
"""First part of the name of a user's own server: `compatible/NAME`."""


def check_names(
    document: Document, models: Mapping[str, Any], providers: Mapping[str, Any]
) -> None:
    """Check that every provider exists and every model has one; UsageError otherwise."""
    for name in providers:
        kind, slash, name_after = name.partition("/")
        key = ("providers", name)
        if kind == COMPATIBLE and (not name_after or "/" in name_after):
            raise document.fault(
                key,
                f"{name!r} is not a server name",
                f"write {COMPATIBLE}/NAME, as in {COMPATIBLE}/NAME/MODEL",
            )
        vendors = provider_names()
        if kind not in vendors or (slash and kind != COMPATIBLE):
            raise document.unknown(key, [*vendors, f"{COMPATIBLE}/NAME"], "provider", "providers")
    for name in models:
        if not name.startswith(PREFIX):
            try:
                provider_of(name)
            except UsageError as exc:
                models_named = (model for _, model in _mentions(document.value))
                near = next((model for model in models_named if model.endswith(f"/{name}")), "")
                hint = f"did you mean {near!r}?" if near else "write PROVIDER/MODEL, as in a role"
                raise document.fault(("models", name), str(exc), hint) from None


def check_use(
    document: Document, models: Mapping[str, Any], providers: Mapping[str, Any], used: Iterable[str]
) -> None:
    """Check that the sweep uses every model and every own server that has settings. used: the
    models of the sweep. Models that only the file names, and a flag replaced, are allowed too.
    UsageError names settings without a use."""
    mentioned = {*used, *(model for _, model in _mentions(document.written()))}
    known_models = sorted(name for name in mentioned if "/" in name)
    own_prefix = f"{COMPATIBLE}/"
    servers = sorted({"/".join(m.split("/")[:2]) for m in known_models if m.startswith(own_prefix)})
    words = "model in this sweep", "the models that it asks"
    for name in (name for name in models if name not in mentioned):
        raise document.unknown(("models", name), known_models, *words)
    words = "server in this sweep", "servers that it asks"
    for name in (name for name in providers if name.startswith(own_prefix) and name not in servers):
        raise document.unknown(("providers", name), servers, *words)


def naming(document: Document, provider: str) -> Key:
    """Key of a provider's settings, or else of the first model that names the provider."""
    if document.value.get("providers") and provider in document.value["providers"]:
        address = ("providers", provider, "base_url")
        settings = document.value["providers"][provider] or {}
        return address if "base_url" in settings else address[:2]
    mentions = (key for key, text in _mentions(document.value) if text.startswith(f"{provider}/"))
    return next(mentions, ())


def _mentions(value: Mapping[str, Any]) -> Iterator[tuple[Key, str]]:
    """Every text in the sections that name models, with its key."""
    for section in ("agents", "judges", "protocols"):
        yield from texts((section,), value.get(section))


def texts(key: Key, value: Any) -> Iterator[tuple[Key, str]]:
    """Every text in a tree of mappings and lists, with its key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from texts((*key, name), inner)
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from texts((*key, n), inner)
