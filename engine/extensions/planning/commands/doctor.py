"""`oversight doctor`: check keys, models and limits with a few small calls."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from .....cache.call import Call
from ....errors import UsageError
from ....extensions.planning.estimate import cramped
from ....extensions.planning.preflight import PreflightResult, ending, examine, key_of
from ....providers.capabilities import today
from ....providers.catalogue import provider_names
from ....providers.keys import settings_of
from ....providers.settings import environment
from ....providers.simulated import PREFIX
from ....run.dry_run import require_abilities
from ....run.loaded_sweep import LoadedSweep, open_sweep
from ....system.flags import argument
from ....views.cli.completing import sweep_files
from ....views.cli.exit_codes import ExitCode
from ....views.cli.flags import as_command
from ....views.cli.options import JSON, SET
from ....views.cli.output import show, show_json

LINE = "\n"


@as_command
def command(
    what: tuple[str, ...] = argument("[SWEEP | MODEL…]", complete=sweep_files),
    overrides: tuple[str, ...] = SET,
    as_json: bool = JSON,
) -> None:
    """Check keys, addresses, models and limits, with a few small requests.

    SWEEP: each of its models is asked for one token, and its calls are checked against the model's
    abilities; logprobs, schemas and tools are tried with one small call each, where the sweep needs
    them. The vendors' lists of models are read, at no cost. MODEL: check only these, such as
    `openai/gpt-6-luna`. With neither, list which keys are set. Exit code 1 if a check fails.
    """
    variables = environment(Path())
    if len(what) == 1 and Path(what[0]).suffix in (".yaml", ".yml"):
        findings = asyncio.run(_sweep(open_sweep(Path(what[0]), overrides), variables))
    elif overrides:
        raise UsageError("--set is for a sweep; name its file")
    else:
        findings = asyncio.run(
            examine(what, lambda name, api: settings_of(name, variables, api=api), variables)
        )
    if not what:
        findings = [
            replace(found, remedy="")
            for each in provider_names()
            if (found := key_of(each, variables)) is not None
        ]
    if as_json:
        # No provider was asked for, so a key that is not set is not a fault.
        show_json(findings if what else [replace(found, fine=True) for found in findings])
    else:
        show("\n".join(_lines(findings, "✗" if what else "–")))
    if what and not all(finding.fine for finding in findings):
        raise SystemExit(ExitCode.FAILED)


async def _sweep(opened: LoadedSweep, variables: Mapping[str, str]) -> list[PreflightResult]:
    """Check the models of a sweep: their abilities, retirements and answers."""
    models, sweep = opened.models, opened.sweep
    needs: Iterable[Call] = ()
    try:
        needs = await require_abilities(sweep, models.simulated, models.reach)
        able = PreflightResult(sweep.name, True, "its models support all that it asks for")
    except UsageError as exc:
        able = PreflightResult(sweep.name, False, str(exc))
    tight = [PreflightResult(sweep.name, False, note) for note in cramped(sweep)]
    real = [model for model in sweep.models if not model.startswith(PREFIX)]
    ends = [ending(told, today()) for told in models.retirements(sweep.models)]
    looked = await examine(real, models.settings, variables, models.reach, needs)
    return [able, *tight, *ends, *looked]


def _lines(findings: Iterable[PreflightResult], wrong: str) -> Iterator[str]:
    """The findings, grouped by subject. wrong: the mark of a finding that is not fine."""
    for about, group in groupby(findings, key=lambda finding: finding.about):
        yield about
        for finding in group:
            yield f"  {'✓' if finding.fine else wrong} {finding.text.replace(LINE, LINE + '    ')}"
            if finding.remedy:
                yield f"    {finding.remedy}"
