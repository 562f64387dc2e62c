"""What tokens cost, and what happens where nobody knows."""

import json
import tomllib
from datetime import date
from importlib.resources import files

import pytest

from oversight.cache.reply import Usage
from oversight.engine.analysis.costs import sampled_costs
from oversight.engine.analysis.rows import read_rows
from oversight.engine.errors import UsageError
from oversight.engine.models.accounting.price_file import checked
from oversight.engine.models.accounting.prices import _prices, charged, listed, load_prices
from oversight.engine.run.reader import Place, RunReader
from oversight.engine.views.pages.reading import ends_of
from tests.answering import alike, answering
from tests.command_line import within

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "input", "output"),
    [
        ("openai/gpt-4o", 2.5, 10),
        ("openai/gpt-4o-2024-11-20", 2.5, 10),
        ("openai/gpt-4o-2024-05-13", 5, 15),
        ("openai/gpt-4o-mini", 0.15, 0.6),
        ("openai/gpt-4o-mini-2024-07-18", 0.15, 0.6),
        ("anthropic/claude-3-5-sonnet-20241022", 3, 15),
        ("anthropic/claude-3-5-haiku-latest", 0.8, 4),
        ("anthropic/claude-sonnet-4-5-20250929", 3, 15),
        ("deepseek/deepseek-flash", 0.3, 1.2),
        ("ollama/llama3.1:8b", 0, 0),
        ("vllm/meta-llama/Llama-3.1-8B-Instruct", 0, 0),
        ("sim/strong", 0, 0),
    ],
)
def test_the_models_that_most_people_use_are_listed(model, input, output):
    price = listed().need(model)
    assert (price.input, price.output) == (input, output)


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


def test_a_price_beyond_a_length_needs_the_length(tmp_path):
    file = tmp_path / "prices.toml"
    file.write_text('[openai.models]\n"x" = { input = 1, output = 2, above = 100 }\n')
    with pytest.raises(UsageError, match="above and beyond belong together"):
        load_prices(file)


def test_an_unknown_model_has_no_price_and_the_mend_is_told():
    assert listed().find("openrouter/some/model") is None
    with pytest.raises(UsageError) as caught:
        listed().need("openrouter/some/model")
    text = str(caught.value)
    assert text.startswith("openrouter/some/model: no price is known, so --max-cost cannot be kept")
    assert '[openrouter.models."some/model"]' in text
    assert "free = true" in text


def test_the_mend_that_is_told_works(tmp_path):
    file = tmp_path / "prices.toml"
    file.write_text('[openrouter.models."some/model"]\ninput = 1\noutput = 2\n')
    assert load_prices(file).need("openrouter/some/model").cost(Usage(MILLION, MILLION)) == 3
    file.write_text("[openrouter]\nfree = true\n")
    assert load_prices(file).need("openrouter/some/model").cost(Usage(MILLION, MILLION)) == 0


def test_a_users_file_overrules_the_list_and_leaves_the_rest(tmp_path):
    file = tmp_path / "prices.toml"
    file.write_text(
        "[openai]\nas_of = 2026-12-01\nsource = 'our contract'\n"
        "[openai.models]\n'gpt-4o' = { input = 1.25, output = 5 }\n"
    )
    prices = load_prices(file)
    mine = prices.need("openai/gpt-4o-2024-08-06")
    assert (mine.input, mine.output, mine.cache_read, mine.source) == (
        1.25,
        5,
        1.25,
        "our contract",
    )
    assert prices.need("openai/gpt-4o-mini") == listed().need("openai/gpt-4o-mini")
    assert prices.need("anthropic/claude-3-5-haiku") == listed().need("anthropic/claude-3-5-haiku")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[openai", "no valid TOML"),
        (
            "[openai.models.'gpt-4o']\ninput = -1\noutput = 1",
            r"openai.models.gpt-4o.input: .*\(got -1\)",
        ),
        ("[openai.models.'gpt-4o']\ninput = 1", "models.gpt-4o.output: Field required"),
        ("[openai.models.'gpt-4o']\ninput = 1\noutput = nan", "models.gpt-4o.output: .*finite"),
        ("[openai.models.'gpt-4o']\ninput = 1\noutput = 1\noutptu = 2", "models.gpt-4o.outptu"),
        ("[openai]\nfre = true", "fre: Extra inputs"),
        ("openai = 3", "openai: .*dict"),
    ],
)
def test_a_price_file_that_is_wrong_is_told_with_its_place(tmp_path, text, told):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=told) as caught:
        load_prices(file)
    assert str(caught.value).startswith(str(file))


def test_a_price_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(UsageError, match=r"none\.toml: cannot be read as a price file"):
        load_prices(tmp_path / "none.toml")


def test_a_batch_costs_its_part_of_all_prices_those_of_long_prompts_included():
    price = listed().need("openai/gpt-6-sol")
    half = price.batched()
    for usage in (Usage(1_000, 50, 400, 100), Usage(300_000, 50)):
        assert half.cost(usage) == pytest.approx(0.5 * price.cost(usage))
    assert half.worst(300_000, 9) == pytest.approx(0.5 * price.worst(300_000, 9))
    assert half.batch == 1.0


SERVED = {
    "choices": [
        {"message": {"role": "assistant", "content": "A: 60%\nB: 40%"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
}


@pytest.mark.wire
def test_pages_price_a_model_by_the_public_model_that_it_is(place, command):
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
    assert [each.dollars for each in calls.values()] == [expected]


def test_the_list_that_comes_with_the_package_passes_the_check_of_a_users_file():
    text = files("oversight.engine").joinpath("data/prices.toml").read_text()
    assert _prices(checked(tomllib.loads(text))) == listed().models


LITELLM = {
    "sample_spec": {"litellm_provider": "one of …", "mode": "one of …", "input_cost_per_token": 0},
    "claude-haiku-4-5-20251001": {
        "litellm_provider": "anthropic",
        "mode": "chat",
        "input_cost_per_token": 1e-06,
        "output_cost_per_token": 5e-06,
        "cache_read_input_token_cost": 1e-07,
        "cache_creation_input_token_cost": 1.25e-06,
    },
    "gemini/gemini-2.5-flash-lite": {
        "litellm_provider": "gemini",
        "mode": "chat",
        "input_cost_per_token": 1e-07,
        "output_cost_per_token": 4e-07,
        "input_cost_per_token_batches": 5e-08,
        "input_cost_per_token_flex": 4e-08,
    },
    "gemini/gemini-3-flash-preview": {
        "litellm_provider": "gemini",
        "mode": "chat",
        "input_cost_per_token": 5e-07,
        "output_cost_per_token": 3e-06,
        "input_cost_per_token_above_200k_tokens": 1e-06,
        "output_cost_per_token_above_200k_tokens": 6e-06,
    },
    "gemini/imagen": {"litellm_provider": "gemini", "mode": "image_generation"},
    "nowhere/x": {"litellm_provider": "nowhere", "mode": "chat", "input_cost_per_token": 1},
}
OPENROUTER = {
    "data": [
        {"id": name, "pricing": {"prompt": prompt, "completion": completion}}
        for name, prompt, completion in [
            ("deepseek/deepseek-v3.2", "0.00000028", "0.0000004"),
            ("x-ai/grok-4.1-fast", "0.0000002", "0.0000005"),
            ("nvidia/nemotron-3-nano-30b-a3b", "0.00000005", "0.0000002"),
            ("openrouter/auto", "-1", "-1"),
        ]
    ]
}
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
def test_lists_that_others_keep_price_every_model_of_the_papers_librarys_own_grid(tmp_path):
    """Known truth: five of these seven models are priced by no list of ours."""
    (tmp_path / "grid.yaml").write_text(GRID)
    file = tmp_path / "model_prices.json"
    file.write_bytes(json.dumps(LITELLM).encode())
    own = {"XDG_DATA_HOME": str(tmp_path / "data")}

    def priced():
        listed.cache_clear()
        plan = within("plan", "grid.yaml", "--json", cwd=tmp_path, **own)
        return sum(model["cost"] is not None for model in json.loads(plan.out)["plan"]["models"])

    try:
        assert priced() == 2
        assert within("doctor", "--update-prices", str(file), cwd=tmp_path, **own).code == 0
        assert priced() == 4
        with answering(alike(200, json.dumps(OPENROUTER).encode())) as (url, _):
            updated = within("doctor", "--update-prices", url, cwd=tmp_path, **own)
        assert "prices of 3 models" in updated.out
        assert priced() == 7
        found = load_prices(tmp_path / "data/oversight/prices.toml")
        flash = found.need("gemini/gemini-3-flash-preview")
        assert flash.cost(Usage(200_000, 1_000)) == pytest.approx(0.1 + 0.003)
        assert flash.cost(Usage(200_001, 1_000)) == pytest.approx(0.200001 + 0.006)
        lite = found.need("gemini/gemini-2.5-flash-lite")
        assert (lite.batched().input, lite.flex) == (0.05, 0.4)
        haiku = found.need("anthropic/claude-haiku-4-5")
        assert haiku == listed().need("anthropic/claude-haiku-4-5")
        told = within("plan", "grid.yaml", cwd=tmp_path, **own).out
        assert f"prices of 2026-11-20 to {date.today()}" in told
        file.write_text("[]")
        refused = within("doctor", "--update-prices", str(file), cwd=tmp_path, **own)
        assert (refused.code, "is no price list of LiteLLM's form" in refused.err) == (2, True)
    finally:
        listed.cache_clear()


@pytest.mark.parametrize(
    ("raw", "dollars"),
    [
        ('{"cost": 0.0135}', 0.0135),
        ('{"cost": 0, "is_byok": true, "cost_details": {"upstream_inference_cost": 0.25}}', 0.25),
        ('{"cost_usd_total": 0.5}', 0.5),
        ('{"cost": {"total": 3}}', 1.0),
        ('{"cost": -1}', 1.0),
        ("", 1.0),
    ],
)
def test_what_a_vendor_says_that_a_call_cost_wins_over_the_list(raw, dollars):
    price = listed().need("openai/gpt-4.1-nano")
    assert charged(Usage(10 * MILLION, raw=raw), price) == dollars
    assert charged(Usage(10, raw=raw), None) == (None if dollars == 1.0 else dollars)
