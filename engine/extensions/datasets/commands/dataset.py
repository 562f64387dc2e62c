"""`oversight dataset`: check data sets for leaks, fetch them, generate answers."""

from pathlib import Path

import click

from .....protocols.datasets.bundled import BUNDLED
from .....protocols.datasets.catalogue import LOADERS, loader
from .....protocols.datasets.loader import Loader
from ....errors import UsageError
from ....sweep.document import Document
from ....sweep.originals import missing_file_hint, originals
from ....system.flags import argument, flag
from ....views.cli.exit_codes import ExitCode
from ....views.cli.group import NamedGroup
from ....views.cli.options import JSON, LIMIT, output
from ....views.cli.output import show, width
from ..checking import check_finding
from ..generating import GenerateSettings, Production, generate_all
from ..writing import Generator, known_questions


@click.group(cls=NamedGroup, path="dataset")
def command() -> None:
    """Check data sets for leaks, fetch them, generate wrong answers."""


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
    do the same: the data set leaks, and the exit code is 1.
    """
    made = _loader(spec, settings)
    with missing_file_hint(spec):
        found = check_finding(spec, *made.read())
    show(found.text("json" if as_json else "text", width()))
    if found.about["leaks"]:
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

    A file with another checksum than the known one is not kept.
    """
    # Only this command needs an HTTP client.
    from ..download import fetch_all

    fetch_all(name, output or Path("data") / name, mirror)


@command.adds()
def generate(
    *,
    source: Path = argument("FILE"),
    drafts: int = flag("Drafts for each question.", default=4, least=1, most=1000),
    temperature: float | None = flag(
        "Sampling temperature. Default: the provider's.", least=0, most=2
    ),
    seed: int = flag("Seed of the order of labels.", default=0),
    limit: int | None = LIMIT,
    settings: GenerateSettings,
) -> None:
    """Have a model write a plausible wrong answer for every question in FILE.

    \b
      oversight dataset generate questions.jsonl --model … -o new.jsonl

    The model names likely mistakes, writes a solution for each, and rates how plausible it is. A
    line of FILE is {"question", "answer"}, where the answer ends in "#### 18" as in GSM8K, or is a
    number or a text; or a problem of our own format, whose best answer is kept.

    Replies are stored: the same command resumes, and pays for nothing twice. With --batch, the
    state of the batches is kept in OUTPUT.work. Exit codes are those of `oversight run`.
    """
    with missing_file_hint(source.parent.name):
        known = known_questions(source)[:limit]
    work = Production(known, Generator(settings.model, temperature, drafts=drafts))
    raise SystemExit(generate_all(work, source, seed, settings))


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
                f"{spec}: a sweep file, not a data set\n"
                f"  to check its problems: oversight plan {spec}"
            )
        if Path(spec).exists():
            return loader("file", {"path": spec} | document.value)
    except ValueError as exc:
        raise UsageError(f"{exc}\n  a setting is given as --set NAME=VALUE") from exc
    meant = f"\n  a bundled one: bundled --set name={spec}" if spec in BUNDLED else ""
    raise UsageError(
        f"{spec}: neither a file nor a data set; data sets: {', '.join(LOADERS)}{meant}"
    )


def _fetched(spec: str) -> str:
    """Settings, as YAML, that read the data set from where `dataset fetch` puts it."""
    if spec not in originals():
        return ""
    _, _, settings = originals()[spec].loader.format(folder=f"data/{spec}").partition(": ")
    return settings
