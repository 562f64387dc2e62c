"""Prices of tokens, and unknown prices: `prices.md`."""

import json
import subprocess
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

import pytest

from oversight.cache.reply import Usage
from oversight.engine.analysis.frontier import sampled_costs
from oversight.engine.analysis.rows import read_rows
from oversight.engine.models.accounting import prices
from oversight.engine.models.accounting.prices import (
    Price,
    PriceList,
    charged,
    listed,
    load_prices,
)
from oversight.engine.run.reader import Place, RunReader
from oversight.engine.views.pages.transcript_view import ends_of
from tests.answering import alike, answering
from tests.command_line import within
from tests.sessions import sessions
from tests.tables import printed

MILLION = 1_000_000


def price(model: str, file: str = "") -> str:
    """Price per million tokens of input and output, by the list or a user's file."""
    if file:
        Path("mine.toml").write_text(file)
    price = (load_prices(Path("mine.toml")) if file else listed()).need(model)
    rates = f"{price.input:g} in, {price.output:g} out, {price.cache_read:g} cached"
    return f"{rates}: {price.source or 'nobody says'}"


def said(raw: str) -> list[float | None]:
    """Cost of a call with this stated usage, for a model at one dollar and one without price."""
    nano = listed().need("openai/gpt-4.1-nano")
    return [charged(Usage(10 * MILLION, raw=raw), price) for price in (nano, None)]


def found(lab: PriceList, *models: str) -> list[Price | None]:
    """Prices of a file, also of models that bear the names of others there."""
    full, paid = lab.find("lab/full"), lab.find("own/paid")
    for model in models:
        price = lab.find(model)
        priced = price and (price.input or price.output)
        billed = {model: price, "own/paid": paid} if priced else {"own/paid": paid}
        assert lab.billed([model, "own/paid"]) == billed
        renamed = lab.named({"lab/mine": model, "lab/full": model})
        assert (renamed.find("lab/mine"), renamed.find("lab/full")) == (price, full)
    return [lab.find(model) for model in models]


def costs(lab: PriceList, usage: Usage, calls: int) -> tuple[float, float]:
    """Dollars that a million such calls cost, and those that they may cost at most.

    A tier multiplies the price of live calls; a deferred call costs the same on every tier."""
    price, tokens = lab.need("lab/full"), (usage.input_tokens, usage.output_tokens)
    dollars, worst = MILLION * price.cost(usage, calls), MILLION * price.worst(*tokens)
    for tiers, factor in (("priority auto", 2), ("flex", 0.5), ("flex default", 1), ("auto", 1)):
        live = lab.tiered({"lab/full": tiers.split()}).need("lab/full")
        for tiered, times in ((live, factor), (live.deferred(), 0.25)):
            assert MILLION * tiered.cost(usage, calls) == pytest.approx(times * dollars)
            assert MILLION * tiered.worst(*tokens) == pytest.approx(times * worst)
        assert live.deferred().batch == 1.0
    return round(dollars, 6), round(worst, 6)


@sessions(Path(__file__).with_name("prices.md"))
def test_price_comes_from_list_file_or_vendor(session, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = vars(prices) | globals()
    session.check(request, printed(names), names)


def test_every_priced_vendor_names_its_source_and_its_day():
    for name, price in listed().models.items():
        if price.output:
            assert price.source.startswith("https://"), name
            assert price.as_of >= date(2026, 1, 1), name
            assert 0 < price.cache_read <= price.input <= price.cache_write < price.output, name


SERVED = {
    "choices": [
        {"message": {"role": "assistant", "content": "A: 60%\nB: 40%"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
}


@pytest.mark.wire
def test_pages_and_measures_price_a_model_by_the_public_model_that_it_is(place, command):
    with answering(alike(200, json.dumps(SERVED).encode())) as (url, _):
        (place / "sweep.yaml").write_text(
            f"""\
name: sweep
problems: {{bundled: {{name: arithmetic, limit: 1}}}}
agents: {{model: compatible/lab/ours}}
judges: {{kind: stated, model: compatible/lab/ours}}
protocols: [naive_judge]
providers: {{compatible/lab: {{base_url: "{url}/v1"}}}}
models: {{compatible/lab/ours: {{is: openai/gpt-4o}}}}
"""
        )
        ran = command("run", "sweep.yaml", "--run-folder", "run")
    assert ran.code == 0, ran.err
    expected = pytest.approx(listed().need("openai/gpt-4o").cost(Usage(1000, 100)))
    with RunReader(place / "run", place / "store") as run:
        (row,) = sampled_costs(read_rows(run)).rows
        _, calls, *_ = ends_of(run, Place(0, 0))[0]
    assert row.alone and row.alone.dollars == expected
    assert [call.dollars for call in calls.values()] == [expected]
    measured = command("measure", "frontier", "run", "--json")
    assert json.loads(measured.out)["total"]["dollars"] == expected, measured.err


GRID = """\
name: grid
problems: {bundled: {name: arithmetic, limit: 2}}
agents:
  model:
    - openrouter/deepseek/deepseek-v3.2
    - openrouter/x-ai/grok-4.1-fast
    - gemini/gemini-3-flash-preview
    - anthropic/claude-haiku-4-5-20251001
judges:
  - {kind: stated, model: openrouter/nvidia/nemotron-3-nano-30b-a3b}
  - {kind: stated, model: openai/gpt-5-nano}
  - {kind: stated, model: gemini/gemini-2.5-flash-lite}
protocols: {naive_judge: , debate: {rounds: 1}}
"""


@pytest.mark.wire
def test_public_prices_cover_the_grid_of_the_paper(tmp_path):
    """Six of these seven models are public; the seventh has left its vendor's list."""
    (tmp_path / "grid.yaml").write_text(GRID)
    models = json.loads(within("plan", "grid.yaml", "--json", cwd=tmp_path).out)["plan"]["models"]
    assert [model["model"] for model in models if model["cost"] is None] == [
        "openrouter/x-ai/grok-4.1-fast"
    ]
    printed_plan = within("plan", "grid.yaml", cwd=tmp_path).out
    assert f"prices of genai-prices {version('genai-prices')}; " in printed_plan


@pytest.mark.wire
def test_plain_run_and_help_do_not_import_public_prices():
    script = (
        "import sys; from oversight.engine.models.accounting.prices import listed\n"
        "for model in ('sim/strong', 'ollama/llama3', 'compatible/lab/x', 'openai/gpt-5.6-sol'):\n"
        "    listed().find(model)\n"
        "print('genai_prices' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.stdout.strip() == "False", process.stderr
