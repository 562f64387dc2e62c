"""`oversight dataset`: check data sets for leaks, fetch them, generate answers."""

from pathlib import Path
from typing import Any

import click

from .....protocols.datasets.bundled import BUNDLED
from .....protocols.datasets.catalogue import LOADERS, loader
from .....protocols.datasets.generation import Generator
from .....protocols.datasets.inventory import Inventory, inventory
from .....protocols.datasets.known import known_questions
from .....protocols.datasets.leak import LeakageCheck, RuleAccuracy, leakage_check, power
from .....protocols.datasets.loader import Loader
from .....protocols.datasets.rewriting import Rewriter
from ....errors import UsageError
from ....sweep.document import Document
from ....sweep.originals import missing_file_hint, originals
from ....system.flags import argument, flag
from ....views.cli.exit_codes import ExitCode
from ....views.cli.group import NamedGroup
from ....views.cli.options import JSON, LIMIT, GenerateSettings, output
from ....views.cli.output import show, show_json
from .table import TELLS, inventory_text

LOADER_SETTINGS = flag(
    "Setting of the loader, e.g. limit=200; repeatable.",
    name="--set",
    default=(),
    metavar="NAME=VALUE",
)
LABEL_SEED = flag("Seed of the order of labels.", name="--seed", default=0)
TEMPERATURE = flag("Sampling temperature. Default: the provider's.", least=0, most=2)


@click.group(cls=NamedGroup)
def command() -> None:
    """Check data sets for leaks, fetch them, generate or rewrite answers."""


@command.adds()
def check(
    spec: str = argument("FILE|LOADER"),
    settings: tuple[str, ...] = LOADER_SETTINGS,
    as_json: bool = JSON,
) -> None:
    """Print what is in a data set, and whether the form of an answer gives away its value.

    \b
      oversight dataset check mine.jsonl
      oversight dataset check gsm8k --set limit=200

    A data set is read from where `oversight dataset fetch` puts it, unless --set says otherwise.

    A rule of form never reads the question: it picks the longest answer, or the one with the most
    numbers. Where its picks are off chance by more than luck and by 3 points or more, a judge
    could do the same, and exit code 1 says so.
    """
    made = _loader(spec, settings)
    with missing_file_hint(spec):
        problems, skipped = made.load(), made.skipped()
    held, gate = inventory(problems), leakage_check(problems)
    if as_json:
        show_json(_plain(held, gate) | {"skipped": [str(fault) for fault in skipped]})
    else:
        show(inventory_text(spec, held, gate, skipped))
    if gate.leaks:
        raise SystemExit(ExitCode.FAILED)


@command.adds()
def fetch(
    name: str = argument(
        complete=lambda ctx, param, part: [each for each in originals() if each.startswith(part)]
    ),
    output: Path | None = output("data/NAME"),
    pins: tuple[str, ...] = flag(
        "Required checksum of a file; repeatable.", name="--sha256", default=(), metavar="FILE=HEX"
    ),
    mirror: str | None = flag(
        "Mirror that has the files under their names.", name="--from", metavar="URL"
    ),
) -> None:
    """Download the original files of the data set NAME from where its authors put them.

    A file whose checksum is not the one that is known, or that --sha256 names, is not kept.
    """
    # Only this command needs an HTTP client.
    from .fetching import fetch_all

    fetch_all(name, output or Path("data") / name, pins, mirror)


@command.adds("generate-wrong")
def generate_wrong(
    *,
    file: Path = argument(),
    drafts: int = flag("Drafts asked for per question.", default=4, least=1, most=1000),
    temperature: float | None = TEMPERATURE,
    seed: int = LABEL_SEED,
    limit: int | None = LIMIT,
    settings: GenerateSettings,
) -> None:
    """Have a model write a plausible wrong answer for every question in FILE.

    \b
    A line of FILE is {"question", "answer"}, where the answer ends in "#### 18" as in GSM8K, or
    is a number or a text; or a problem of our own format, whose best answer is kept.

    The model names mistakes that one could make, writes a solution for each, and rates how
    plausible it is. Replies are stored: after a stop the same command goes on, and pays for
    nothing twice. With --batch, what is known of the batches is kept in OUTPUT.work. Exit codes
    are those of `oversight run`.
    """
    from ....extensions.datasets.generation import generation
    from .generating import Wish, generate_all

    remedy = "take another model, or more --drafts"
    wish = Wish(str(file), seed, settings, "a wrong answer", remedy)
    with missing_file_hint(file.parent.name):
        known = known_questions(file)[:limit]
    raise SystemExit(
        generate_all(wish, generation(known, Generator(settings.model, temperature, drafts=drafts)))
    )


@command.adds("generate-proposals")
def generate_proposals(
    *,
    file: Path = argument(),
    draws: int = flag("Proposals for each question.", default=1, least=1, most=1000),
    temperature: float | None = TEMPERATURE,
    seed: int = LABEL_SEED,
    limit: int | None = LIMIT,
    settings: GenerateSettings,
) -> None:
    """Have a model answer every question in FILE, as proposals to accept or reject.

    FILE is as of generate-wrong. The model is asked plainly, and its answers are graded by the
    right ones, which no seat of a later run sees. Run protocols on the proposals; then
    examples/analyses/proposals.py prints how well each row tells right from wrong ones.
    """
    from .....protocols.datasets.proposing import Proposer
    from ....extensions.datasets.generation import proposing
    from .generating import Wish, generate_all

    told = ("a proposal", "take another model")
    wish = Wish(str(file), seed, settings, *told)
    with missing_file_hint(file.parent.name):
        known = known_questions(file)[:limit]
    raise SystemExit(
        generate_all(wish, proposing(known, Proposer(settings.model, temperature, draws=draws)))
    )


@command.adds("generate-rewritten")
def generate_rewritten(
    *,
    spec: str = argument("FILE|LOADER"),
    loading: tuple[str, ...] = LOADER_SETTINGS,
    temperature: float = flag(
        "Sampling temperature of the solutions.", default=0.0, least=0, most=2
    ),
    settings: GenerateSettings,
) -> None:
    """Have one model write every worked solution anew, right and wrong ones alike.

    \b
      oversight dataset generate-rewritten gsm8k --model … -o new.jsonl

    Where different hands wrote right and wrong answers, a judge can tell them by their wording;
    `oversight dataset check` says how well. The model sees one solution at a time, and neither the
    question nor which answer it is. A solution that comes back with another answer, or without a
    result that it had, leaves its question out. Replies are stored: after a stop the same command
    goes on, and pays for nothing twice. Exit codes are those of `oversight run`.
    """
    from ....extensions.datasets.generation import rewriting
    from .generating import Wish, generate_all

    remedy = "take another model, or data with worked solutions"
    wish = Wish(spec, 0, settings, "its solutions anew", remedy)
    with missing_file_hint(spec):
        problems = _loader(spec, loading).load()
    raise SystemExit(generate_all(wish, rewriting(problems, Rewriter(settings.model, temperature))))


def _loader(spec: str, settings: tuple[str, ...]) -> Loader:
    """The loader named `spec` with these settings; for a file, the loader of our own format."""
    document = Document.parse(_fetched(spec), "--set")
    for assignment in settings:
        document.set(assignment)
    try:
        if spec in LOADERS:
            return loader(spec, document.value)
        if Path(spec).suffix in (".yaml", ".yml"):
            raise UsageError(
                f"{spec}: a sweep file, and no data set\n"
                f"  what the leakage check finds in its problems: oversight plan {spec}"
            )
        if Path(spec).exists():
            return loader("file", {"path": spec} | document.value)
    except ValueError as exc:
        raise UsageError(f"{exc}\n  a setting is given as --set NAME=VALUE") from exc
    meant = f"\n  a bundled one: bundled --set name={spec}" if spec in BUNDLED else ""
    raise UsageError(
        f"{spec}: no such file, and no loader is called so; there are: {', '.join(LOADERS)}{meant}"
    )


def _fetched(spec: str) -> str:
    """Settings, as YAML, that read the data set from where `dataset fetch` puts it."""
    if spec not in originals():
        return ""
    _, _, settings = originals()[spec].loader.format(folder=f"data/{spec}").partition(": ")
    return settings


def _plain(held: Inventory, gate: LeakageCheck) -> dict[str, Any]:
    return {
        "problems": held.problems,
        "answers": {str(answers): problems for answers, problems in held.answers},
        "best": dict(held.best),
        "passages": held.passages,
        "groups": held.groups,
        "duplicates": held.duplicates,
        "leaks": [rule.rule for rule in gate.leaks],
        "rules": [_rule(rule) for rule in gate.rules],
        "power": {str(points): power(gate.problems, points / 100) for points in TELLS},
    }


def _rule(rule: RuleAccuracy) -> dict[str, Any]:
    return {
        "rule": rule.rule,
        "n": rule.applicable,
        "accuracy": rule.accuracy,
        "low": rule.low,
        "high": rule.high,
        "chance": rule.chance,
        "leaks": rule.leaks,
        "remedy": rule.remedy if rule.leaks else "",
    }
