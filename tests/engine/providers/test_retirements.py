"""The table of retirements, held against what the installed SDKs say of their own models."""

import ast
import re
from datetime import date, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from oversight.engine.providers.retirements import NOTICE, retirement

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


def test_every_model_that_the_anthropic_sdk_calls_deprecated_is_in_the_table() -> None:
    text = source("anthropic", "resources/messages/messages.py")
    table = re.search(r"^DEPRECATED_MODELS = (\{.*?^\})", text, re.MULTILINE | re.DOTALL)
    assert table is not None
    deprecated = ast.literal_eval(table[1])
    assert len(deprecated) > 15
    for name, words in deprecated.items():
        ends = retirement(f"anthropic/{name}")
        assert ends is not None and ends.day == day_in_words(words), name


def test_every_model_that_the_openai_sdk_calls_deprecated_is_in_the_table() -> None:
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
def test_a_name_ends_on_its_own_vendors_day(model: str, ends: date | None) -> None:
    told = retirement(model)
    assert (told and told.day) == ends


def test_an_end_is_near_for_some_weeks_and_then_past() -> None:
    told = retirement("openai/gpt-4o")
    assert told is not None
    eve = date(2027, 1, 13)
    assert told.near(eve) and not told.past(eve)
    assert told.past(told.day) and not told.near(told.day)
    early = date.fromordinal(told.day.toordinal() - NOTICE - 1)
    assert not told.near(early) and not told.past(early)


def test_models_that_the_project_recommends_live_for_a_year() -> None:
    """README, starter and examples must not name a model that is gone when somebody tries it."""
    pages = [ROOT / "README.md", *ROOT.glob("examples/*.yaml"), *ROOT.glob("engine/data/*.yaml")]
    named = {
        match
        for page in pages
        for match in re.findall(r"\b(?:openai|anthropic|deepseek)/[\w.-]*\w", page.read_text())
    }
    assert named
    assert {model: str(end) for model in named if (end := retirement(model))} == {}
