"""Abilities of models and their retirement: `capabilities.md`."""

import ast
import re
from datetime import date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from oversight.cache.call import Call, Message, Request, ResponseFormat, ToolSpec
from oversight.engine.providers import capabilities
from oversight.engine.providers.capabilities import missing_abilities, retirement
from tests.sessions import sessions
from tests.tables import printed

TOOLS, FORM = (ToolSpec("t", "d", "{}"),), ResponseFormat("v", "{}")
JUDGES = {"temperature": 0.4, "top_logprobs": 5}
"""The settings of a logprob judge."""


def lacks(model: str, **settings: Any) -> list[str]:
    """Parameters of a call with these settings that a model does not take, and why."""
    call = Call(Request(model, (Message("user", "?"),), **settings))
    return [str(lack) for lack in missing_abilities(call)] or ["nothing"]


def refuses(*models: str) -> list[str]:
    """Which settings of sampling each does not take."""
    settings = {"top_k": 3, "min_p": 0.1, "seed": 7, "service_tier": "flex"}
    lines = []
    for model in models:
        labels = (
            name
            for name, value in settings.items()
            if any(f": {name}: " in lack for lack in lacks(model, effort="none", **{name: value}))
        )
        lines.append(f"{model}: {', '.join(labels) or 'none'}")
    return lines


def ends(*models: str) -> list[str]:
    return [
        f"{model}: {known_end.day if (known_end := retirement(model)) else 'not known'}"
        for model in models
    ]


@sessions(Path(__file__).with_name("capabilities.md"))
def test_unsupported_parameters_are_reported_before_any_call(session, request):
    session.check(request, printed(vars(capabilities) | globals()))


ROOT = Path(__file__).parents[3]


def day_in_words(text: str) -> date:
    return datetime.strptime(re.sub(r"(?<=\d)(st|nd|rd|th)", "", text), "%B %d, %Y").date()


def source(package: str, path: str) -> str:
    """The text of a module of an SDK; importing one takes a second."""
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent.joinpath(path).read_text(encoding="utf-8")


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
    deprecated, text = {}, source("openai", "types/shared/chat_model.py")
    for entry in re.split(r"\n- ", text.partition("Deprecated values:")[2]):
        if day := re.search(r"shutdown\s+date:\s+(\d{4}-\d\d-\d\d)", entry):
            names = re.findall(r'"([^"]+)"', entry[: day.start()])
            deprecated |= dict.fromkeys(names, date.fromisoformat(day[1]))
    assert len(deprecated) > 60
    for name, last in deprecated.items():
        ends = retirement(f"openai/{name}")
        assert ends is not None and ends.day == last, name


def test_models_that_the_project_recommends_live_for_a_year():
    """README, starter and examples must not name a model that is gone when somebody tries it."""
    pages = [ROOT / "README.md", *ROOT.glob("examples/*.yaml"), *ROOT.glob("engine/data/*.yaml")]
    models = {
        match
        for page in pages
        for match in re.findall(r"\b(?:openai|anthropic|deepseek)/[\w.-]*\w", page.read_text())
    }
    assert models
    # The paper's own judge, which the first live run names with its last day.
    models.discard("openai/gpt-4o-mini")
    assert {model: str(end) for model in models if (end := retirement(model))} == {}
