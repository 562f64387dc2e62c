"""Prices of tokens, and unknown prices: `prices.md`."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import date
from importlib.metadata import version
from pathlib import Path

import pytest

from oversight.cache.reply import Usage
from oversight.engine.analysis.frontier import sampled_costs
from oversight.engine.analysis.rows import read_rows
from oversight.engine.errors import UsageError
from oversight.engine.models.accounting.prices import (
    PriceList,
    charged,
    listed,
    load_prices,
    public_price,
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
    """Cost of a call with this stated usage: for a model at one dollar by the list, and for one
    without a price."""
    nano = listed().need("openai/gpt-4.1-nano")
    return [charged(Usage(10 * MILLION, raw=raw), price) for price in (nano, None)]


@sessions(Path(__file__).with_name("prices.md"))
def test_price_comes_from_list_file_or_vendor(session, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session.check(request, printed(globals()))


def test_every_priced_vendor_names_its_source_and_its_day():
    for name, price in listed().models.items():
        if price.output:
            assert price.source.startswith("https://"), name
            assert price.as_of >= date(2026, 1, 1), name
            assert 0 < price.cache_read <= price.input <= price.cache_write < price.output, name


def test_each_kind_of_token_has_its_price():
    price = listed().need("anthropic/claude-3-5-sonnet-20241022")
    usage = Usage(10_000, 1_000, cache_read_tokens=6_000, cache_write_tokens=3_000)
    expected = 1_000 * 3 + 6_000 * 0.3 + 3_000 * 3.75 + 1_000 * 15
    assert price.cost(usage) == pytest.approx(expected / MILLION)


def test_no_call_costs_more_than_its_worst_case():
    price = listed().need("anthropic/claude-3-5-sonnet")
    worst = price.worst(10_000, 1_000)
    for read, write in ((0, 0), (10_000, 0), (0, 10_000), (5_000, 5_000)):
        usage = Usage(10_000, 1_000, cache_read_tokens=read, cache_write_tokens=write)
        assert price.cost(usage) <= worst + 1e-12


def test_a_long_prompt_is_priced_by_its_own_rates_and_a_sum_of_short_ones_is_not():
    price = listed().need("anthropic/claude-haiku-5-5")
    assert price.cost(Usage(100_000, 1_000)) == pytest.approx(0.01 + 0.0005)
    assert price.cost(Usage(100_001, 1_000)) == pytest.approx(0.0500005 + 0.0025)
    assert price.cost(Usage(1_000_000, 10_000), calls=100) == pytest.approx(0.1 + 0.005)
    assert price.worst(100_001, 1_000) >= price.cost(Usage(100_001, 1_000))


def test_batch_factor_applies_to_all_prices_including_long_prompts():
    price = listed().need("openai/gpt-6-sol")
    half = price.deferred()
    for usage in (Usage(1_000, 50, 400, 100), Usage(300_000, 50)):
        assert half.cost(usage) == pytest.approx(0.5 * price.cost(usage))
    assert half.worst(300_000, 9) == pytest.approx(0.5 * price.worst(300_000, 9))
    assert half.batch == 1.0


@pytest.mark.parametrize(
    ("used", "factor"),
    [("auto", 1), ("auto priority", 2), ("flex", 0.5), ("flex auto", 1), ("scale auto", None)],
)
def test_dearest_tier_in_use_sets_the_price_of_live_calls_alone(used, factor):
    price = replace(listed().need("openai/gpt-6-sol"), tiers={"priority": 2.0, "flex": 0.5})
    tiered = PriceList({"m/x": price}).tiered({"m/x": used.split()}).find("m/x")
    usage = Usage(1_000, 50, 400, 100)
    if factor is None:
        assert tiered is None
    else:
        assert tiered.cost(usage) == pytest.approx(factor * price.cost(usage))
        assert tiered.deferred().cost(usage) == pytest.approx(price.deferred().cost(usage))


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


def test_public_price_is_the_dearest_at_any_hour_and_length():
    """DeepSeek charges half at most hours; Anthropic charges more beyond 200,000 tokens."""
    flash = public_price("deepseek/deepseek-flash")
    assert (flash.input, flash.output, flash.cache_read) == (0.3, 1.2, 0.006)
    sonnet = public_price("anthropic/claude-sonnet-4-5-20250929")
    assert (sonnet.above, sonnet.beyond.input, sonnet.beyond.output) == (200_000, 6, 22.5)
    assert (sonnet.batch, sonnet.cost(Usage(200_000, 0))) == (0.5, pytest.approx(0.6))
    assert sonnet.cost(Usage(200_001, 0)) == pytest.approx(1.200006)


@pytest.mark.parametrize(
    "model",
    [
        "openai/gpt-99", "openai/", "compatible/lab/gpt-4o", "nobody/gpt-4o",
        "openai/gpt-4o nonsense",
    ],
)  # fmt: skip
def test_unknown_model_stays_unknown(model):
    assert listed().find(model) is None
    with pytest.raises(UsageError, match="no price is known, so --max-cost cannot be enforced"):
        listed().need(model)


def test_price_file_wins_over_every_other_price(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        "[openai.models]\ngpt-5-nano = {input = 700, output = 9}\n[deepseek]\nfree = true\n"
    )
    prices = load_prices(file)
    assert prices.need("openai/gpt-5-nano-2025-08-07").input == 700
    assert prices.need("deepseek/deepseek-flash").output == 0
    assert prices.need("openai/gpt-4o") == listed().need("openai/gpt-4o")


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
