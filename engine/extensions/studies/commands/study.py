"""`oversight dataset import` and `check-study`: experiments that were made elsewhere."""

from dataclasses import replace
from pathlib import Path

import click

from ....system.flags import argument, flag
from ....views.cli.flags import as_command
from ....views.cli.options import FOLDER, JSON, output
from ....views.cli.output import say, show, show_json, show_line


@as_command
def import_(
    files: tuple[Path, ...] = argument(required=True, exists=True),
    hash_ids: bool = flag("Replace ids of people that a platform gave them.", default=False),
    name: str = flag("Name of the study.", default=""),
    output: Path | None = output("studies/NAME"),
) -> None:
    """Convert FILES, lines of JSON that tell of an experiment, into a study folder.

    What is left out is counted, with the reason. Answers are known by their texts: their order and
    labels may differ from one conversation to the next. Importers of published experiments are
    scripts in examples/studies.
    """
    from ..draft import RECORDS, import_study, read_records

    if name != Path(name).name or name == "..":
        raise click.BadParameter(f"{name!r} is no name of a folder; a path goes to -o")
    to = output or Path("studies") / (name or RECORDS.name)
    about = replace(RECORDS, name=name or RECORDS.name)
    for line in import_study(about, read_records, files, to, hash_ids=hash_ids).told():
        say(line)
    show(str(to))


@as_command
def check(study: Path = argument(type=FOLDER), as_json: bool = JSON) -> None:
    """Check a study folder: checksums, contradictions, quotes, leaks.

    Exit code 1 if something is wrong.
    """
    from ..check import check_study

    lines = check_study(study)
    if as_json:
        show_json(lines)
    else:
        for line in lines:
            note = f"; {line.note}" if line.note else ""
            show_line(f"{line.what}: {line.n:,}{note}")
            for wrong in line.wrong[:5]:
                show_line(f"  ! {wrong}")
            if (more := len(line.wrong) - 5) > 0:
                show(f"  ! and {more:,} more")
    if any(line.wrong for line in lines if line.what != "problems that leak"):
        raise SystemExit(1)
