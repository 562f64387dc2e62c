"""The lines on size and cost in the headers of examples, made by `oversight plan` itself.

Write them again with: python -m tools.examples"""

import asyncio
import math
import re
from pathlib import Path

from oversight.engine.extensions.planning.estimate import plan_sweep
from oversight.engine.models.accounting.prices import listed
from oversight.engine.run.loaded_sweep import open_sweep
from tests.protocols.datasets.published import PUBLISHED

EXAMPLES = Path(__file__).parents[1] / "examples"
PRICED = ("appendix_a", "appendix_a_solib")
"""Examples that cost money."""

LINES = re.compile(r"(?<=\n)#   oversight run .*\n#\n# (?:.*\n# )*?Planned: .*\n(?:# .*\n)*?#\n")


def header(name: str) -> str:
    """The lines as the example has them."""
    found = LINES.search((EXAMPLES / f"{name}.yaml").read_text())
    return found[0] if found else ""


def planned(name: str) -> str:
    """The lines as the plan has them, at the prices that come with the program."""
    file = EXAMPLES / f"{name}.yaml"
    opened = open_sweep(file, (f"problems.gsm8k.folder={PUBLISHED}",), None)
    plan = asyncio.run(plan_sweep(opened, None, listed(), frozenset()))
    cost = plan.cost
    assert cost is not None
    calls, most = round(plan.total("calls"), -3), 10 * math.ceil(cost.high / 10)
    dates = sorted({str(model.price_of) for model in plan.models if model.price_of})
    return (
        f"#   oversight run  {name}.yaml --max-cost {most}\n"
        "#\n"
        f"# Planned: {plan.cells:,} cells, about {calls:,} distinct calls, ${cost.low:,.0f} to\n"
        f"# ${cost.high:,.0f}, likely ${cost.likely:,.0f}, at prices of {', '.join(dates)}.\n"
        "#\n"
    )


def write(name: str) -> None:
    file = EXAMPLES / f"{name}.yaml"
    text = file.read_text()
    assert LINES.search(text), f"{file} has no lines to replace"
    file.write_text(LINES.sub(lambda _: planned(name), text, count=1))


if __name__ == "__main__":
    for name in PRICED:
        write(name)
