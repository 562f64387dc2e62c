"""`oversight dataset`: check data sets for leaks, fetch them, have answers written.

A fetched file is checked, and put in place whole or not at all."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import click
import httpx2
import numpy as np

from ....protocols.datasets.catalogue import LOADERS, loader
from ....protocols.datasets.columns import own_letters, refers
from ....protocols.datasets.jsonl import BUNDLED
from ....protocols.datasets.leak import MATERIAL, LeakageCheck, RuleAccuracy, leakage_check, power
from ....protocols.datasets.loader import Loader, Notes
from ....protocols.datasets.solution import sense
from ....protocols.datasets.trajectories import Trajectories, steps_of
from ....protocols.errors import DatasetError
from ....protocols.question import Problem
from ....protocols.settings import unknown
from ...analysis.findings.finding import Finding, Part, figure, number, people, program, word
from ...analysis.scoring.estimate import Estimate
from ...analysis.scoring.roc import ClassScores, auroc
from ...display.text import counted
from ...errors import DownloadError, UsageError
from ...sweep.document import Document, Node
from ...sweep.loading import loader_class
from ...sweep.named_files import missing_file_hint, originals
from ...system.files import replace_file
from ...system.process import DATASETS_GROUP, registered
from ...system.settings import argument, flag
from ...views.cli.exit_codes import ExitCode
from ...views.cli.flags import JSON, LIMIT, output
from ...views.cli.group import NamedGroup
from ...views.cli.output import say, show, width
from .proposing import ProposeSettings, propose_all

TELLS = (5, 10, 15)
"""Leaks, in percentage points off chance, for which the power of the gate is printed."""
LISTED = 5
"""Maximum number of duplicates, and of invalid rows, that are named."""

COLUMNS = (
    word("rule", "rule"),
    number("n", "applicable", key="n"),
    number("accuracy", "accuracy", ".1%"),
    people("interval", lambda rule: f"{rule.low:.1%} to {rule.high:.1%}"),
    program("low", "low"),
    program("high", "high"),
    number("chance", "chance", ".1%"),
    people("verdict", lambda rule: "leaks" if rule.leaks else "fine"),
    program("leaks", "leaks"),
    program("remedy", lambda rule: rule.remedy if rule.leaks else ""),
)

TELLING = 0.1
"""Distance from .5 above which the AUROC of a run's size is a leak, if its interval excludes .5."""


class SizeLeak(NamedTuple):
    """A size of runs as a monitor that reads nothing."""

    size: str
    auroc: Estimate

    @property
    def leaks(self) -> bool:
        low, high = self.auroc.interval or (0.0, 1.0)
        return abs(self.auroc.value - 0.5) > TELLING and not low <= 0.5 <= high


SIZE_COLUMNS = (
    word("size", "size"),
    figure("AUROC", "auroc", 2, sign=False),
    people("verdict", lambda size: "leaks" if size.leaks else "fine"),
    program("leaks", "leaks"),
)


@dataclass(frozen=True, slots=True)
class Inventory:
    problems: int
    answers: dict[int, int]
    """Number of answers -> problems with that many, ascending."""
    best: dict[str, int]
    """Label -> problems whose best answer has it, by label; ties count for the first answer."""
    passages: int
    """Number of distinct passages."""
    groups: int
    """Number of distinct groups; each problem without one counts as one."""
    duplicates: tuple[tuple[str, ...], ...]
    """Ids of problems that ask the same question about the same passage."""


def check_finding(
    name: str, problems: Sequence[Problem], reading: Notes, positive: str = ""
) -> Finding:
    """The leakage check rule by rule, the contents, and what to do. positive: the label of attacks
    among trajectories; empty for other data sets."""
    contents, gate = inventory(problems), leakage_check(problems)
    sizes = size_leaks(problems, positive) if positive else []
    leaks = [rule.rule for rule in gate.leaks] + [size.size for size in sizes if size.leaks]
    about = asdict(contents) | {
        "leaks": leaks,
        "power": {points: power(gate.problems, points / 100) for points in TELLS},
        "skipped": [str(fault) for fault in reading.bad],
        "changed": reading.changed,
        "letters": carrying_letters(problems),
        "references": referring(problems),
    }
    idle = [rule.rule for rule in gate.rules if not rule.applicable]
    notes = [f"not applicable: {', '.join(idle)}"] * bool(idle)
    notes += [
        *_contents(contents),
        *_skipped(reading.bad),
        *reading.changes("merged", "letters", "left out"),
    ]
    notes += _options(problems)
    notes += [_power(gate), *_remedies(gate)]
    title = f"{name}: {'label leakage' if leaks else 'no leak found'}"
    applicable = [rule for rule in gate.rules if rule.applicable]
    parts = [
        Part("rules", "", COLUMNS, gate.rules, shown=False),
        Part("", title, COLUMNS, applicable, notes),
    ]
    if sizes:
        advice = ["leaks: a monitor could go by size alone: choose runs of similar sizes"]
        note = (
            "[ ] 95%; .5 is chance. A leak is more than .1 from .5, and its interval excludes .5."
        )
        head = f"sizes of the shown runs: AUROC for {positive}"
        remedy = advice * any(size.leaks for size in sizes)
        parts.append(Part("sizes", head, SIZE_COLUMNS, sizes, [note, *remedy]))
    return Finding(tuple(parts), about)


def size_leaks(problems: Sequence[Problem], positive: str) -> list[SizeLeak]:
    """How well the size of the shown steps tells attacks from honest runs; none for one class."""
    attack = [problem.question.answers[problem.best].text == positive for problem in problems]
    steps = [steps_of(problem.question.passage) for problem in problems]
    sizes = {
        "characters": [len(problem.question.passage) for problem in problems],
        "steps": [len(run) for run in steps],
        "calls": [sum('"action"' in step.partition(">")[0] for step in run) for run in steps],
    }
    if len({*attack}) < 2:
        return []

    def of_class(values: Sequence[int], label_wanted: bool) -> ClassScores:
        places = [n for n, label in enumerate(attack) if label is label_wanted]
        ids = tuple(problems[n].id for n in places)
        groups = tuple(problems[n].group for n in places)
        return ClassScores(ids, np.array([values[n] for n in places], dtype=np.float64), groups)

    return [
        SizeLeak(name, auroc(of_class(values, True), of_class(values, False)).estimate())
        for name, values in sizes.items()
    ]


def _contents(contents: Inventory) -> Iterator[str]:
    yield "n: problems whose answers the rule distinguishes; all others are scored as chance."
    least = f"{100 * MATERIAL:.0f} points"
    yield f"leaks: significantly off chance (all rules together), by more than {least}."
    answers = ", ".join(
        f"{problems:,} of {count} answers" for count, problems in contents.answers.items()
    )
    yield f"problems: {contents.problems:,} ({answers})"
    yield "best answer: " + ", ".join(
        f"{label} {count:,}" for label, count in contents.best.items()
    )
    if contents.passages:
        yield f"passages: {contents.passages:,}"
    if contents.groups < contents.problems:
        yield f"groups that a bootstrap keeps together: {contents.groups:,}"
    if not contents.duplicates:
        yield "duplicates: none"
        return
    stand = "stands" if len(contents.duplicates) == 1 else "stand"
    yield f"duplicates: {counted(len(contents.duplicates), 'question')} {stand} more than once:"
    yield from _first([", ".join(ids) for ids in contents.duplicates])


def _skipped(faults: Sequence[DatasetError]) -> Iterator[str]:
    if faults:
        yield f"skipped: {counted(len(faults), 'invalid row')}:"
    yield from _first([str(fault) for fault in faults])


def carrying_letters(problems: Sequence[Problem]) -> list[str]:
    """Ids of the problems whose answers begin with letters, such as `(A)`."""
    carrying = []
    for problem in problems:
        try:
            if own_letters([answer.text for answer in problem.question.answers]):
                carrying.append(problem.id)
        except ValueError:
            carrying.append(problem.id)
    return carrying


def referring(problems: Sequence[Problem]) -> list[str]:
    """Ids of the problems with an answer that refers to others."""
    return [
        problem.id
        for problem in problems
        if any(refers(answer.text) for answer in problem.question.answers)
    ]


def _options(problems: Sequence[Problem]) -> Iterator[str]:
    if carrying := carrying_letters(problems):
        yield (
            f"letters: {counted(len(carrying), 'problem')} ({_few(carrying)}) with answers that "
            "start with letters, which may give them away: remove the letters"
        )
    if refer := referring(problems):
        yield (
            f"cross-references: {counted(len(refer), 'problem')} ({_few(refer)}) with an answer "
            "that refers to others, so all answers keep their order"
        )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:LISTED]) + (", …" if len(names) > LISTED else "")


def _first(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"  {line}" for line in lines[:LISTED])
    if len(lines) > LISTED:
        yield f"  … and {len(lines) - LISTED:,} more"


def _power(gate: LeakageCheck) -> str:
    chances = (f"of {tell} points {power(gate.problems, tell / 100):.0%}" for tell in TELLS)
    return f"power with n = {gate.problems:,}: chance of finding a leak {', '.join(chances)}"


def _remedies(gate: LeakageCheck) -> Iterator[str]:
    """One line for each remedy, with the rules that it is for."""
    rules: dict[str, list[RuleAccuracy]] = {}
    for rule in gate.leaks:
        rules.setdefault(rule.remedy, []).append(rule)
    for remedy, leaking in rules.items():
        yield f"what to do about {', '.join(rule.rule for rule in leaking)}: {remedy}"


def inventory(problems: Sequence[Problem]) -> Inventory:
    same: dict[object, list[str]] = {}
    for problem in problems:
        question = problem.question
        same.setdefault((sense(question.text), question.passage), []).append(problem.id)
    return Inventory(
        len(problems),
        dict(sorted(Counter(len(problem.values) for problem in problems).items())),
        dict(sorted(Counter(each.question.answers[each.best].label for each in problems).items())),
        len({problem.question.passage for problem in problems} - {""}),
        len({(problem.group, "" if problem.group else problem.id) for problem in problems}),
        tuple(tuple(ids) for ids in same.values() if len(ids) > 1),
    )


@click.group(cls=NamedGroup, path="dataset")
def command() -> None:
    """Check data sets for leaks, fetch them, have answers written and graded."""


@command.adds()
def check(
    spec: str = argument("FILE|LOADER"),
    settings: tuple[str, ...] = flag(
        "Setting of the loader, e.g. limit=200; repeatable.",
        name="--set",
        default=(),
        metavar="NAME=VALUE",
    ),
    as_json: bool = JSON,
) -> None:
    """Print the contents of a data set, and whether its answers leak their labels.

    \b
      oversight dataset check mine.jsonl
      oversight dataset check gsm8k --set limit=200

    A data set is read from where `oversight dataset fetch` puts it, unless --set says otherwise.

    A content-blind rule never reads the question: it picks the longest answer, or the one with the
    most numbers. If its picks are significantly off chance, and by 3 points or more, a judge could
    do the same: the data set leaks, and the exit code is 1. So do trajectories whose characters,
    steps or calls tell the attacks.
    """
    loaded = _loader(spec, settings)
    with missing_file_hint(spec):
        positive = loaded.positive if isinstance(loaded, Trajectories) else ""
        finding = check_finding(spec, *loaded.read(), positive)
    show(finding.text("json" if as_json else "text", width()))
    if finding.about["leaks"]:
        raise SystemExit(ExitCode.FAILED)


@command.adds()
def fetch(
    name: str = argument(
        complete=lambda ctx, param, part: [each for each in originals() if each.startswith(part)]
    ),
    output: Path | None = output("data/NAME"),
    mirror: str | None = flag(
        "Mirror that has the files under their names.", name="--from", metavar="URL"
    ),
) -> None:
    """Download the original files of the data set NAME from where its authors put them.

    A file with another checksum than the known one is not kept."""
    fetch_all(name, output or Path("data") / name, mirror)


@command.adds()
def propose(
    *, source: Path = argument("TASKS"), limit: int | None = LIMIT, settings: ProposeSettings
) -> None:
    """Have an agent answer the open tasks in TASKS, and grade its answers with a program.

    \b
      oversight dataset propose tasks.jsonl --agent sim/strong --checker numeric \\
          -o proposals.jsonl --pairs pairs.jsonl

    A row of TASKS has a question, a column for the checker, and may have id, passage, group,
    environment and reference. The truth of a proposal is its grade, never the instruction. A sweep
    reads the files as problems: {file: proposals.jsonl}.

    Replies are stored: the same command resumes, and pays for nothing twice. With --batch, the
    state of the batches is kept in OUTPUT.work. Exit codes: as for `oversight run`.
    """
    with missing_file_hint(source.parent.name):
        raise SystemExit(propose_all(source, limit, settings))


def _loader(spec: str, settings: tuple[str, ...]) -> Loader:
    """The loader named `spec` with these settings; for a file, the loader of our own format."""
    document, others = Document.parse(_fetched(spec), "--set"), registered(DATASETS_GROUP)
    for assignment in settings:
        document.set(assignment)
    try:
        if spec in LOADERS or spec in others:
            kind = loader_class(Node(document, (spec,), document.value))
            return loader(spec, document.value, kind)
        if Path(spec).suffix in (".yaml", ".yml"):
            raise UsageError(
                f"{spec}: a sweep file, not a data set\n"
                f"  to check its problems: oversight plan {spec}"
            )
        if Path(spec).exists():
            return loader("file", {"path": spec} | document.value)
    except ValueError as exc:
        raise UsageError(f"{exc}\n  a setting is given as --set NAME=VALUE") from exc
    bundled_hint = f"\n  a bundled one: bundled --set name={spec}" if spec in BUNDLED else ""
    raise UsageError(
        f"{spec}: neither a file nor a data set; data sets: {', '.join([*LOADERS, *others])}"
        f"{bundled_hint}"
    )


def _fetched(spec: str) -> str:
    """Settings, as YAML, that read the data set from where `dataset fetch` puts it."""
    if spec not in originals():
        return ""
    _, _, settings = originals()[spec].loader.format(folder=f"data/{spec}").partition(": ")
    return settings


TIMEOUT = httpx2.Timeout(60.0, connect=30.0)
"""Seconds of a silent connection, and of connecting; a whole file takes as long as bytes come."""


def fetch_all(name: str, folder: Path, mirror: str | None) -> None:
    """Fetch the missing files of a data set into `folder`; print them, and how to use them."""
    table = originals()
    if (original := table.get(name)) is None:
        raise UsageError(unknown("data set", name, table))
    if original.accept:
        raise DownloadError(
            f"{name} has terms to be accepted: accept them at {original.accept}, download the file "
            "there, and read it with\n"
            f"  problems: {{{original.loader.format(folder=folder)}}}"
        )
    files = original.files
    if mirror:
        base = mirror.rstrip("/")
        files = tuple(replace(file, url=f"{base}/{file.name}") for file in files)
    say(f"{name}: {original.page} (licence: {original.licence})")
    for file in files:
        path = folder / file.name
        try:
            digest = download(file.url, path, sha256=file.sha256)
        except DownloadError as exc:
            raise DownloadError(f"{exc}\n  see {original.page}; another place: --from URL") from exc
        vouched = "as it must be" if file.sha256 else "its authors publish none to compare"
        say(f"{path}: {path.stat().st_size:,} bytes, sha256 {digest}, {vouched}")
    show(f"problems: {{{original.loader.format(folder=folder)}}}")


def download(url: str, path: Path, *, sha256: str = "") -> str:
    """Download `url` to `path`; returns its sha256. An existing file is not fetched again. sha256:
    the required checksum; empty takes any. On a DownloadError `path` is unchanged, and no part of
    the download is kept."""
    try:
        if path.exists():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if sha256 not in ("", digest):
                raise DownloadError(
                    f"{path} already exists, with sha256 {digest} not {sha256}; move it away "
                    "to fetch the file again"
                )
            return digest
        path.parent.mkdir(parents=True, exist_ok=True)
        answer = httpx2.get(url, timeout=TIMEOUT, follow_redirects=True)
        if answer.status_code != 200:
            status = f"{answer.status_code} {answer.reason_phrase}"
            raise DownloadError(f"{url}: the server answers {status}")
        digest = hashlib.sha256(answer.content).hexdigest()
        if sha256 not in ("", digest):
            raise DownloadError(
                f"{url}: sha256 is {digest}, not {sha256}; nothing was kept. Either the file was "
                "changed there, or on its way here"
            )
        replace_file(path, [answer.content])
        return digest
    except httpx2.HTTPError as exc:
        raise DownloadError(f"{url}: {type(exc).__name__}: {exc}; nothing was kept") from exc
    except OSError as exc:
        raise DownloadError(f"{path}: cannot be written: {exc.strerror or exc}") from exc
