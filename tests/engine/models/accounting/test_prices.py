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
    """Cost of a call with this stated usage: for a model at one dollar by the list, and for one
    without a price."""
    nano = listed().need("openai/gpt-4.1-nano")
    return [charged(Usage(10 * MILLION, raw=raw), price) for price in (nano, None)]


@sessions(Path(__file__).with_name("prices.md"))
def test_price_comes_from_list_file_or_vendor(session, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session.check(request, printed(vars(prices) | globals()))


def test_every_priced_vendor_names_its_source_and_its_day():
    for name, price in listed().models.items():
        if price.output:
            assert price.source.startswith("https://"), name
            assert price.as_of >= date(2026, 1, 1), name
            assert 0 < price.cache_read <= price.input <= price.cache_write < price.output, name


LAB = """
[lab]
source = "https://lab.example/prices"
as_of = 2026-03-01
batch = 0.4
[lab.models]
plain = {input = 2, output = 11}
plain-2026-01-05 = {input = 4, output = 23, batch = 1}
[lab.models.full]
input = 3
output = 13
cache_read = 0.5
cache_write = 5
batch = 0.25
flex = 0.5
priority = 2
above = 1_000
beyond = {input = 7, output = 17, cache_write = 19, flex = 0.75}
[openai.models]
gpt-5-nano = {input = 1, output = 1}
[deepseek]
free = true
[own]
free = true
models = {paid = {input = 1, output = 1}}
"""
LISTED = date(2026, 3, 1), "https://lab.example/prices"
PLAIN = Price(2, 11, 2, 2, 0.4, *LISTED)
DATED = Price(4, 23, 4, 4, 1, *LISTED)
BEYOND = Price(7, 17, 7, 19, 0.4, *LISTED, {"flex": 0.75})
FULL = Price(3, 13, 0.5, 5, 0.25, *LISTED, {"flex": 0.5, "priority": 2}, 1_000, BEYOND)
FREE = Price(0, 0, 0, 0, 1, date.min, "")
PAID = Price(1, 1, 1, 1, 1, date.min, "")


@pytest.fixture
def lab(tmp_path) -> PriceList:
    (tmp_path / "lab.toml").write_text(LAB)
    return load_prices(tmp_path / "lab.toml")


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("lab/plain", PLAIN), ("lab/full", FULL), ("lab/plain-2026-01-05", DATED),
        ("lab/plain-20260105", PLAIN), ("lab/plain-2025-12-31", PLAIN), ("lab/plain-latest", PLAIN),
        ("lab/plain-latest-x", None), ("lab/plain-2026", None), ("lab/other", None),
        ("own/paid", PAID), ("own/other", FREE), ("other/plain", None),
        # The file also wins over public prices.
        ("openai/gpt-5-nano-2025-08-07", PAID), ("deepseek/deepseek-flash", FREE),
    ],
)  # fmt: skip
def test_a_name_has_its_own_price_then_its_familys_then_its_vendors(lab, model, price):
    assert lab.find(model) == price
    billed = {"own/paid": PAID} if price in (None, FREE) else {model: price, "own/paid": PAID}
    assert lab.billed([model, "own/paid"]) == billed
    renamed = lab.named({"lab/mine": model, "lab/full": model})
    assert (renamed.find("lab/mine"), renamed.find("lab/full")) == (price, FULL)
    assert price is None or price.stated_by == ("2026-03-01" if model[:3] == "lab" else "")
    assert replace(PAID, source="genai-prices 1").stated_by == "genai-prices 1"


@pytest.mark.parametrize(
    ("usage", "calls", "dollars", "worst"),
    [
        (Usage(1_000, 100, 300, 200), 1, 500 * 3 + 300 * 0.5 + 200 * 5 + 1_300, 5_000 + 1_300),
        (Usage(1_001, 100, 300, 200), 1, 501 * 7 + 300 * 7 + 200 * 19 + 1_700, 19_019 + 1_700),
        (Usage(3_000, 0, 3_000), 3, 3_000 * 0.5, 3_000 * 19),
        (Usage(3_001, 10, 0, 3_001), 3, 3_001 * 19 + 170, 3_001 * 19 + 170),
        (Usage(), 1, 0, 0),
    ],
)
def test_each_kind_of_token_costs_by_length_tier_and_batch(lab, usage, calls, dollars, worst):
    price, tokens = lab.need("lab/full"), (usage.input_tokens, usage.output_tokens)
    assert price.cost(usage, calls) == pytest.approx(dollars / MILLION)
    assert price.worst(*tokens) == pytest.approx(worst / MILLION)
    # A tier multiplies the price of live calls; a deferred call costs the same on every tier.
    for tiers, factor in (("priority auto", 2), ("flex", 0.5), ("flex default", 1), ("auto", 1)):
        live = lab.tiered({"lab/full": tiers.split()}).need("lab/full")
        for tiered, times in ((live, factor), (live.deferred(), 0.25)):
            assert tiered.cost(usage, calls) == pytest.approx(times * dollars / MILLION)
            assert tiered.worst(*tokens) == pytest.approx(times * worst / MILLION)
        assert live.deferred().batch == 1.0


def test_a_tier_without_a_factor_leaves_no_price_unless_it_costs_at_most_the_usual(lab):
    used = {"lab/full": ["scale", "auto"], "lab/plain": ["flex", ""], "own/other": ["priority"]}
    tiered = lab.tiered(used | {"lab/plain-2026-01-05": ["priority"], "lab/other": ["flex"]})
    names = ("full", "plain", "plain-2026-01-05", "plain-latest", "other")
    prices = [tiered.find(f"lab/{name}") for name in names]
    assert prices == [None, PLAIN, None, PLAIN, None] and tiered.find("own/other") == FREE


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
