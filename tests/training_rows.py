"""The table in docs/training.md: what the mechanisms of the examples really give, recipe by recipe.

Write it anew with: python -m tests.training_rows
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from oversight.engine.runs.loaded_sweep import LoadedSweep, open_sweep
from oversight.engine.training.recipes import DEFAULT_THRESHOLDS, training_examples
from oversight.engine.training.speeches import RecordedWorld, worlds
from oversight.protocols.catalogue import PROTOCOLS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "training.md"
HEAD = "| in a sweep file | sft | preference | reward |"
BEGIN, END = "<!-- counted: begin -->", "<!-- counted: end -->"
PROBLEMS = 5


def mechanisms(*overrides: str) -> LoadedSweep:
    return open_sweep(ROOT / "examples" / "mechanisms.yaml", overrides, PROBLEMS)


def given(opened: LoadedSweep, recipe: str) -> set[str]:
    """The protocols, by their names in a sweep file, that have an example of a recipe."""
    return {
        name
        for name, kind in PROTOCOLS.items()
        if training_examples(_worlds(opened, kind), recipe, DEFAULT_THRESHOLDS[recipe])
    }


def _worlds(opened: LoadedSweep, kind: type) -> Sequence[RecordedWorld]:
    cells = (cell for cell in opened.sweep.cells() if type(cell.row.protocol) is kind)
    return asyncio.run(worlds(cells, opened.models))


def table() -> str:
    """The table as Markdown."""
    once, twice, drafted = mechanisms(), mechanisms("draws=2"), mechanisms("agents.best_of=2")
    sft, reward = given(once, "sft"), given(once, "reward")
    pairs = {
        "yes": given(once, "preference"),
        "several draws": given(twice, "preference"),
        "`best_of`": given(drafted, "preference"),
    }
    lines = [HEAD, "|---|---|---|---|"]
    for name in PROTOCOLS:
        pair = next((how for how, names in pairs.items() if name in names), "–")
        speech, case = ("yes" if name in names else "–" for names in (sft, reward))
        lines.append(f"| `{name}` | {speech} | {pair} | {case} |")
    return "\n".join(lines)


def written() -> str:
    """The table as the document has it."""
    return DOCS.read_text().partition(BEGIN)[2].partition(END)[0].strip()


if __name__ == "__main__":
    before, _, rest = DOCS.read_text().partition(BEGIN)
    DOCS.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}")
