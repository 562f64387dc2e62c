"""Modules that read what models write do so without `re`, in which one reply can take hours.

They scan (`oversight.protocols.tags`, `…prompts.statements`), or say here why a pattern of theirs
takes a time that grows as the text does.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

READ_MODELS = (
    "cache",
    "protocols",
    "engine/run",
    "engine/views/pages",
    "engine/analysis/reports",
    "engine/extensions/inspect",
    "engine/extensions/people",
    "engine/extensions/simulation",
)

MAY = {
    "a pattern one character long": ("protocols/quotes.py", "engine/views/pages/text.py"),
    "nothing in the pattern is repeated": ("cache/reply.py", "protocols/judges/exchange.py"),
    "the text is short: it was cut before": (
        "protocols/agents/querying.py",
        "protocols/datasets/solution.py",
        "engine/analysis/reports/failures.py",
        "engine/run/canaries.py",
        "engine/views/pages/searched.py",
    ),
    "what is repeated begins where nothing else does": (
        "protocols/datasets/writing.py",
        "engine/extensions/simulation/question.py",
        "engine/extensions/simulation/speech.py",
        "engine/run/record/search.py",
    ),
    "our own marks, which no model can write": (
        "protocols/prompts/parse.py",
        "engine/extensions/people/task.py",
    ),
    "no model wrote it": (
        "cache/disk.py",
        "protocols/protocol.py",
        "protocols/question.py",
        "protocols/datasets/form_classifier.py",
        "protocols/datasets/gsm8k.py",
        "protocols/datasets/jsonl.py",
        "protocols/datasets/leak.py",
        "protocols/datasets/hub.py",
        "protocols/datasets/rows.py",
        "protocols/datasets/study.py",
        "protocols/prompts/prompt_set.py",
        "protocols/prompts/published.py",
        "engine/extensions/inspect/logs.py",
        "engine/run/as_left.py",
        "engine/run/parts.py",
        "engine/run/settings.py",
        "engine/extensions/people/rating.py",
    ),
}
"""By reason, the modules that may."""


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.wire
def test_what_models_write_is_read_without_patterns():
    files = (file for folder in READ_MODELS for file in (ROOT / folder).rglob("*.py"))
    found = {str(file.relative_to(ROOT)) for file in files if "re" in imported(file)}
    assert found == {file for files in MAY.values() for file in files}
