"""`oversight export training`: a run as training data, in JSON Lines for TRL."""

from pathlib import Path

import click

from ...display.quantity import counted
from ...errors import UsageError
from ...runs.lookup import Parts
from ...runs.reader import RunReader
from ...runs.recorded import recorded
from ...training.data_card import TrainingSource
from ...training.folder import CARD, write_training
from ...training.recipes import DEFAULT_THRESHOLDS, RECIPES, training_examples
from ...training.speeches import worlds
from ..flags import Number
from ..naming import run_argument
from ..options import (
    output_option,
    recorded_option,
    row_options,
    seed_option,
)
from ..output import say, show

REMEDIES = {
    "sft": "lower --least, or run a protocol whose agent speaks",
    "preference": "pairs need several draws of one speech: run with `draws: 2` or `best_of`, or "
    "lower --least",
    "reward": "lower --least, or run a protocol whose agent speaks",
}


@click.command()
@run_argument
@click.option(
    "--recipe", type=click.Choice(list(RECIPES)), required=True, help="What the rows are for."
)
@output_option("RUN/training/RECIPE")
@click.option(
    "--least",
    type=Number(0, 1),
    help="sft: minimum belief in the answer argued for (default 0.5); otherwise the minimum "
    "difference of two beliefs (default 0.05).",
)
@click.option(
    "--eval-share",
    type=Number(0, 1, max_open=True),
    default=0.1,
    help="Share of the groups that is held out for evaluation.",
)
@seed_option
@row_options
@recorded_option
def command(
    run: Path,
    recipe: str,
    output: Path | None,
    least: float | None,
    eval_share: float,
    seed: int,
    parts: Parts,
    store: str | None,
) -> None:
    """Write what the folder RUN teaches as train.jsonl, eval.jsonl and a card.

    \b
    sft         speeches that the judge came to believe
    preference  two speeches to one prompt, and which did better
    reward      the cases for two answers, and which one the judge believed

    Labels are the judge's verdicts, never the true values. Prompts come from the store; nothing is
    sent. The same run gives the same bytes.
    """
    read = RunReader(run)
    manifest = read.manifest
    threshold = DEFAULT_THRESHOLDS[recipe] if least is None else least
    rows = {n for n, row in enumerate(read.sweep.rows) if parts.fit(row)}
    with recorded(run, store) as replies:
        heard = worlds(read, rows, replies)
    examples = training_examples(heard, recipe, threshold)
    if not examples:
        raise UsageError(f"{run}: no {recipe} example in {len(heard):,} worlds; {REMEDIES[recipe]}")
    name, identity, version = manifest.name, manifest.identity, manifest.version
    source = TrainingSource(name, identity, version, len(heard), recipe, threshold, seed)
    folder = output or run / "training" / recipe
    written = write_training(folder, source, read.problems, examples, eval_share)
    for split, count in written.items():
        say(f"{counted(count, 'example')} in {folder / split}.jsonl")
    show(str(folder / CARD))
