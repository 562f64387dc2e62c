"""`oversight dataset check-study`: whether what an experiment left is whole."""

from pathlib import Path

from ....system.flags import argument
from ....views.cli.flags import as_command
from ....views.cli.options import FOLDER, JSON
from ....views.cli.output import show, show_json, show_line


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
