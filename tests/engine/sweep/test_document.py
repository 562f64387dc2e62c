"""Documents: errors name their place, and settings without meaning name the fix.
Parameters of requests: from the sweep file to the body, or refused with file and line
(`document.md`)."""

from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from oversight.cache.call import Call, Message, Request
from oversight.engine.run.loaded_sweep import LoadedSweep, load_sweep
from oversight.engine.sweep.document import Document
from tests.engine.sweep_files import sweep_file
from tests.sessions import sessions
from tests.tables import expressions

TEXT = """\
name: mine
agents:
  model: [sim/strong, sim/weak]
judges:
  - {kind: stated, model: sim/judge}
  - kind: logprob
    model: sim/judge
protocols:
  - naive_judge
  - debate: {rounds: 2}
"""


def parsed(text: str) -> Document:
    return Document.parse(text, "s.yaml")


words = st.text(max_size=8).filter(lambda text: not set("eE") & set(text))
"""Without the texts that PyYAML writes bare, and that are numbers here: `0E0`."""

trees = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=2), trees, max_size=4))
def test_every_value_stands_at_the_line_where_its_text_is(tree):
    text = yaml.safe_dump(tree, sort_keys=False)
    document = parsed(text)
    assert document.value == tree
    lines = text.splitlines()

    def check(value: Any, key: tuple[str | int, ...]) -> None:
        line = int(document.place(key).rpartition(":")[2])
        if key and isinstance(key[-1], str):
            assert f"{yaml.safe_dump(key[-1]).splitlines()[0]}:" in lines[line - 1]
        elif key:
            assert "-" in lines[line - 1]
        if isinstance(value, (dict, list)):
            for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
                check(inner, (*key, name))

    check(tree, ())


NAMED = """\
agents: openai/gpt-4o-mini
judges: compatible/lab/smollm2-135m
protocols: propaganda
"""


def test_a_run_that_was_made_with_such_settings_can_still_be_looked_into(command, finished):
    folder = finished.folder
    with (folder / "sweep.yaml").open("a") as file:
        file.write("models: {smollm2-135m: {concurrency: 4}}\nproviders: {opnai: {}}\n")
    assert command("report", folder).code == 0
    assert command("run", folder / "sweep.yaml").code == 2


ALL = {
    "top_p": 0.9, "top_k": 40, "min_p": 0.05, "seed": 7, "stop": ("END",), "service_tier": "flex",
    "extra_body": '{"chat_template_kwargs":{"enable_thinking":false}}', "thinking_tokens": 2048,
}  # fmt: skip
ASKED = Call(Request("m", (Message("user", "?"),)))


def opened(judge: str, agent: str = "{model: sim/strong}") -> LoadedSweep:
    text = f"agents: [{agent}]\njudges:\n  - {judge}\nprotocols: debate\n"
    return load_sweep(sweep_file(text), {})


@sessions(Path(__file__).with_name("document.md"))
def test_a_document_and_its_parameters_are_read_or_refused(session, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = dict(globals())
    session.check(request, expressions(names), names)
