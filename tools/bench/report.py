"""Output of the benches: one table per bench, and one of all targets."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import orjson

from oversight.engine.display.table import Table, as_markdown, as_text
from tools.bench import document, machine
from tools.bench.measured import Measured

DOCS = Path(__file__).parents[2] / "docs" / "performance.md"


def written(measured: Sequence[Measured], form: str, docs: Path = DOCS) -> str:
    """The results as text, markdown or json; with docs, written into docs/performance.md."""
    match form:
        case "json":
            told = {"machine": machine.described(), "benches": [asdict(each) for each in measured]}
            return orjson.dumps(told, option=orjson.OPT_INDENT_2).decode()
        case "markdown":
            tables = map(as_markdown, (goals(measured), *(each.table for each in measured)))
            return "\n\n".join([*map(_where, measured[-1:]), *tables])
        case "docs":
            for each in measured:
                section = f"{as_markdown(each.table)}\n\n{_where(each)}"
                document.put(docs, each.name, section, as_markdown(goals([each])))
            return f"written to docs/{docs.name}: {', '.join(each.name for each in measured)}"
    tables = map(as_text, (*(each.table for each in measured), goals(measured)))
    return "\n\n".join([*tables, *map(_where, measured[-1:])])


def goals(measured: Sequence[Measured]) -> Table:
    """Target, and what was."""
    body = tuple(
        (each.name, goal.what, goal.target, goal.measured, "yes" if goal.met else "no")
        for each in measured
        for goal in each.goals
    )
    head = ("bench", "figure", "target", "measured", "met")
    return Table("Target", head, body, 2)


def _where(measured: Measured) -> str:
    return f"{machine.described()}; load {measured.load:.1f}."
