"""What models can do and until when they are served."""

import ast
import re
from datetime import date, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from oversight.cache.call import Call, Message, Request, ResponseFormat, ToolSpec
from oversight.engine.providers.capabilities import Abilities, abilities, missing_abilities
from oversight.engine.providers.retirements import NOTICE, retirement

GPT = Call(Request("openai/gpt-4o-mini", (Message("user", "?"),), temperature=0.4, top_logprobs=5))


def lacking(call: Call) -> list[str]:
    return [lack.parameter for lack in missing_abilities(call)]


def test_a_model_that_takes_everything_lacks_nothing():
    assert missing_abilities(GPT) == ()


@pytest.mark.parametrize(
    ("model", "lacks"),
    [
        ("openai/o3", ["temperature", "top_logprobs"]),
        ("openai/gpt-5-mini", ["temperature", "top_logprobs"]),
        ("openai/gpt-5-chat-latest", []),
        ("openai/gpt-5.2", []),
        ("openai/gpt-5.6-luna", ["effort"]),
        ("openai/gpt-6-luna", ["effort"]),
        ("openai/gpt-6-astra", ["temperature", "top_logprobs"]),
        ("anthropic/claude-sonnet-4-5", ["top_logprobs"]),
        ("anthropic/claude-opus-4-8", ["temperature", "top_logprobs"]),
        ("bedrock/us.anthropic.claude-opus-4-8-v1:0", ["temperature", "top_logprobs"]),
        ("vertex/claude-3-5-haiku@20241022", ["top_logprobs"]),
        ("deepseek/deepseek-flash", ["effort"]),
        ("ollama/llama3.1:8b", []),
        ("openrouter/openai/o3-mini", ["temperature", "top_logprobs"]),
    ],
)
def test_what_each_family_lacks_for_a_judge_by_logprobs(model, lacks):
    assert lacking(GPT.changed(model=model)) == lacks


def test_each_parameter_is_checked():
    call = Call(
        Request(
            "anthropic/claude-3-5-sonnet-20241022",
            (Message("user", "?"),),
            temperature=1.5,
            top_p=0.5,
            max_tokens=10_000,
            tools=(ToolSpec("t", "d", "{}"),),
            response_format=ResponseFormat("v", "{}"),
            top_logprobs=3,
            effort="high",
        )
    )
    assert lacking(call) == [
        "temperature",
        "max_tokens",
        "response_format",
        "top_logprobs",
        "effort",
    ]
    both = call.changed(model="anthropic/claude-sonnet-4-5", temperature=0.5, effort="")
    assert lacking(both) == ["top_p", "top_logprobs"]
    stops = GPT.changed(stop=("a", "b", "c", "d", "e"))
    assert lacking(stops) == ["stop"]


def test_a_lack_says_what_to_write_instead():
    (lack,) = missing_abilities(GPT.changed(model="anthropic/claude-sonnet-4-5"))
    assert str(lack) == (
        "anthropic/claude-sonnet-4-5: top_logprobs: this model reports no logprobs; "
        "judge by stated probabilities or votes"
    )
    (lack,) = missing_abilities(GPT.changed(model="openai/gpt-5.6-luna", effort="high"))
    assert lack.remedy == "set 'none', or leave them out"


@pytest.mark.parametrize(
    ("model", "effort", "taken"),
    [
        ("openai/gpt-5.3", "high", True),
        ("openai/gpt-5.4", "", True),
        ("openai/gpt-5.4", "low", False),
        ("openai/gpt-6-luna", "none", True),
        ("openai/gpt-6-luna", "", False),
        ("openai/gpt-6-astra", "low", False),
        ("anthropic/claude-opus-5-5", "", True),
    ],
)
def test_tools_over_chat_completions_depend_on_effort(model, effort, taken):
    call = Call(
        Request(model, (Message("user", "?"),), tools=(ToolSpec("t", "d", "{}"),), effort=effort)
    )
    assert lacking(call) == ([] if taken else ["tools"])


@pytest.mark.parametrize(
    ("model", "effort"),
    [
        ("anthropic/claude-opus-5-5", "none"),
        ("anthropic/claude-fable-5-1", "none"),
        ("openai/gpt-6.1-sol", "none"),
        ("openai/gpt-5.5", "max"),
        ("anthropic/claude-sonnet-4-6", "xhigh"),
        ("deepseek/deepseek-flash", "medium"),
    ],
)
def test_words_for_effort_that_a_family_refuses(model, effort):
    assert lacking(Call(Request(model, (Message("user", "?"),), effort=effort))) == ["effort"]


@pytest.mark.parametrize(
    ("model", "refused"),
    [
        ("openai/gpt-4o-mini", {"top_k", "min_p", "flex"}),
        ("openai/gpt-6-luna", {"top_k", "min_p"}),
        ("azure/gpt-4o", {"top_k", "min_p"}),
        ("anthropic/claude-sonnet-4-6", {"min_p", "seed", "flex"}),
        ("anthropic/claude-haiku-5-5", {"top_k", "min_p", "seed", "flex"}),
        ("bedrock/us.anthropic.claude-haiku-5-5-v1:0", {"top_k", "min_p", "seed"}),
        ("mistral/mistral-large-latest", {"top_k", "min_p", "flex"}),
        ("groq/qwen3-32b", {"top_k", "min_p"}),
        ("deepseek/deepseek-v4", {"top_k", "min_p", "seed", "flex"}),
        ("ollama/llama3.1:8b", {"top_k", "min_p", "flex"}),
        ("moonshot/kimi-k3", {"top_k"}),
        ("local/smollm2", {"flex"}),
        *((f"{vendor}/x", set()) for vendor in ("gemini", "xai", "together", "openrouter", "vllm")),
    ],
)
def test_what_the_vendors_pages_refuse_and_nothing_that_no_page_says(model, refused):
    asked = {"top_k": 3, "min_p": 0.1, "seed": 7, "service_tier": "flex"}
    lacks = {
        name
        for name, value in asked.items()
        for lack in lacking(
            Call(Request(model, (Message("user", "?"),), effort="none", **{name: value}))
        )
        if lack == name
    }
    assert lacks == {"service_tier" if each == "flex" else each for each in refused}


def test_no_sampling_setting_goes_with_thoughts_where_a_vendor_refuses_it():
    asked = Call(Request("anthropic/claude-sonnet-4-6", (Message("user", "?"),), top_k=3))
    assert lacking(asked) == []
    assert lacking(asked.changed(effort="high")) == ["effort"]


def test_a_temperature_that_would_be_taken_and_not_heeded_is_a_lack():
    (lack,) = missing_abilities(
        Call(Request("deepseek/deepseek-flash", (Message("user", "?"),), temperature=0.8))
    )
    assert "have no effect" in lack.reason
    calm = Call(
        Request("deepseek/deepseek-flash", (Message("user", "?"),), temperature=0.8, effort="none")
    )
    assert missing_abilities(calm) == ()


def test_an_unknown_model_is_permitted_everything_and_says_so():
    able = abilities("compatible/lab/anything")
    assert missing_abilities(GPT.changed(model="compatible/lab/anything")) == ()
    assert "passed on" in able.assumed
    assert not abilities("openai/gpt-4o").assumed


def test_every_row_of_the_table_is_of_the_types_it_declares():
    models = ["openai/gpt-4o", "openai/o1", "anthropic/claude-opus-5", "deepseek/x", "x/y"]
    for able in map(abilities, models):
        for name, value in (
            (field, getattr(able, field)) for field in Abilities.__dataclass_fields__
        ):
            default = getattr(Abilities(), name)
            numeric = isinstance(default, (int, float)) and not isinstance(default, bool)
            assert isinstance(value, (int, float) if numeric else type(default)), (name, value)


ROOT = Path(__file__).parents[3]


def day_in_words(text: str) -> date:
    return datetime.strptime(re.sub(r"(?<=\d)(st|nd|rd|th)", "", text), "%B %d, %Y").date()


def source(package: str, path: str) -> str:
    """The text of a module of an SDK; importing one takes a second."""
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent.joinpath(path).read_text(encoding="utf-8")


def openai_says() -> list[tuple[str, date]]:
    told = []
    text = source("openai", "types/shared/chat_model.py")
    for entry in re.split(r"\n- ", text.partition("Deprecated values:")[2]):
        day = re.search(r"shutdown\s+date:\s+(\d{4}-\d\d-\d\d)", entry)
        if day:
            names = re.findall(r'"([^"]+)"', entry[: day.start()])
            told += [(name, date.fromisoformat(day[1])) for name in names]
    return told


def test_every_model_that_the_anthropic_sdk_calls_deprecated_is_in_the_table():
    text = source("anthropic", "resources/messages/messages.py")
    table = re.search(r"^DEPRECATED_MODELS = (\{.*?^\})", text, re.MULTILINE | re.DOTALL)
    assert table is not None
    deprecated = ast.literal_eval(table[1])
    assert len(deprecated) > 15
    for name, words in deprecated.items():
        ends = retirement(f"anthropic/{name}")
        assert ends is not None and ends.day == day_in_words(words), name


def test_every_model_that_the_openai_sdk_calls_deprecated_is_in_the_table():
    told = openai_says()
    assert len(told) > 60
    for name, day in told:
        ends = retirement(f"openai/{name}")
        assert ends is not None and ends.day == day, name


@pytest.mark.parametrize(
    ("model", "ends"),
    [
        ("openai/gpt-6-luna", None),
        ("anthropic/claude-sonnet-5-5", None),
        ("anthropic/claude-sonnet-4-5-20250929", date(2026, 11, 30)),
        ("openai/gpt-4o-mini", date(2027, 1, 14)),
        ("deepseek/deepseek-chat", date(2026, 7, 24)),
        ("azure/gpt-4o-mini", None),
        ("compatible/lab/gpt-4", None),
    ],
)
def test_a_name_ends_on_its_own_vendors_day(model, ends):
    told = retirement(model)
    assert (told and told.day) == ends


def test_an_end_is_near_for_some_weeks_and_then_past():
    told = retirement("openai/gpt-4o")
    assert told is not None
    eve = date(2027, 1, 13)
    assert told.near(eve) and not told.past(eve)
    assert told.past(told.day) and not told.near(told.day)
    early = date.fromordinal(told.day.toordinal() - NOTICE - 1)
    assert not told.near(early) and not told.past(early)


def test_models_that_the_project_recommends_live_for_a_year():
    """README, starter and examples must not name a model that is gone when somebody tries it."""
    pages = [ROOT / "README.md", *ROOT.glob("examples/*.yaml"), *ROOT.glob("engine/data/*.yaml")]
    named = {
        match
        for page in pages
        for match in re.findall(r"\b(?:openai|anthropic|deepseek)/[\w.-]*\w", page.read_text())
    }
    assert named
    # The paper's own judge, which the first live run names with its last day.
    named.discard("openai/gpt-4o-mini")
    assert {model: str(end) for model in named if (end := retirement(model))} == {}
