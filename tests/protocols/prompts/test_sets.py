"""Prompt sets of a sweep: their names in rows, and the shipped set `khan`."""

import re
from pathlib import Path

import pytest

from oversight import Agent, Call
from oversight.engine.sweep.document import Document
from oversight.engine.sweep.named_files import prompt_sets, unsuitable_agents
from oversight.engine.sweep.sweepfile import read_sweep_file
from oversight.protocols.drafting import BestOf
from oversight.protocols.mechanisms.debate import Debate, InteractiveDebate
from oversight.protocols.prompts.prompt_set import PromptSet
from tests.command_line import within
from tests.fakes import CRATES, JUDGE, Scripted, prompt
from tests.protocols.prompts.test_shown import WORDS, shipped

SWEEP = """\
problems: {bundled: {name: arithmetic, limit: 2}}
agents: sim/medium
judges: sim/judge
protocols: [naive_judge, {debate: {rounds: 1}}]
prompts:
"""


def written(*sets: str) -> Path:
    file = Path("s.yaml")
    file.write_text(SWEEP + "".join(f"  - {entry}\n" for entry in sets))
    return file


def kinds(*sets: str) -> list[str]:
    return [row.kind for row in read_sweep_file(written(*sets)).sweep({}).rows]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_an_unnamed_set_is_called_by_its_change_and_digest():
    one, two = ('{debate: {judge: "Judge."}}', '{debate: {judge: "Decide."}}')
    naive, default, first, second, more = kinds(
        "default", one, two, '{set: khan, debate: {judge: "Judge.", rules: "Argue."}}'
    )
    assert (naive, default) == ("naive judge", "debate simultaneous 1 round")
    assert first.startswith(f"{default} prompts debate.judge ") and first[-4:] != second[-4:]
    assert more.startswith(f"{default} prompts khan debate.judge +1 ")
    assert kinds("default", one)[2] == first
    (_, both) = kinds('{debate: {judge: "Judge.", rules: "Argue."}}')
    assert re.fullmatch(f"{default} prompts debate.judge debate.rules [0-9a-f]{{4}}", both)


def test_changes_are_made_to_the_set_that_they_name():
    Path("mine.yaml").write_text("debate: {rules: Argue.}\n")
    mine = WORDS.changed("mine", {"debate.rules": "Argue."})
    bases = {"default": WORDS, "khan": KHAN, "mine.yaml": mine}
    change = "{{set: {}, name: n {}, debate: {{judge: Judge.}}}}"
    changes = [change.format(base, n) for n, base in enumerate(bases)]
    sets, _ = prompt_sets(Document.read(written(*changes, *bases)), Path(), WORDS)
    for n, base in enumerate(bases.values()):
        changed, unchanged = sets[n], sets[n + 3]
        assert unchanged.blocks == base.blocks and changed.made_for == base.made_for
        assert changed.name == f"n {n}"
        assert dict(changed.blocks) == {**dict(base.blocks), "debate.judge": "Judge."}


def test_the_name_of_a_set_changes_no_row():
    rows = [
        read_sweep_file(written(f'{{name: {name}, debate: {{judge: "Judge."}}}}')).sweep({}).rows
        for name in ("minimal judge", "short judge")
    ]
    names = [row[1].kind.partition(" prompts ")[2] for row in rows]
    assert names == ["minimal judge", "short judge"]
    assert [row.address for row in rows[0]] == [row.address for row in rows[1]]


def test_a_file_names_its_set():
    Path("mine.yaml").write_text('name: my judge\ndebate: {judge: "Judge."}\n')
    assert kinds("mine.yaml")[-1].endswith(" prompts my judge")


def test_the_name_of_a_set_is_in_every_output(tmp_path):
    file = written("default", '{name: minimal judge, debate: {judge: "Judge."}}')
    assert within("run", file, "--run-folder", "run", cwd=tmp_path).code == 0
    within("view", "run", "--write", "site", cwd=tmp_path)
    pages = [page.read_text() for page in Path("site").rglob("*.html")]
    for words in (["--json"], ["--format", "csv"], ["--format", "latex"]):
        pages.append(within("report", "run", *words, cwd=tmp_path).out)
        assert "minimal judge" in pages[-1], words
    assert "minimal judge" in "".join(pages[:-3]) and "changed #" not in "".join(pages)


KHAN = shipped("khan")


async def speeches(kind: type[Debate], words: PromptSet | None) -> list[Call]:
    ask = Scripted(lambda call: "A: 60%\nB: 40%" if "percent" in prompt(call).task else "Because.")
    debate = kind(JUDGE, Agent("alice", scratchpad=True), rounds=3, prompts=words)
    await debate.run(CRATES, CRATES.answers[0], ask)
    return [call for call in ask.calls if prompt(call).asks == "speak A"]


@pytest.mark.parametrize("kind", [Debate, InteractiveDebate])
async def test_khan_gives_advice_for_each_round(kind, request):
    calls = await speeches(kind, KHAN)
    golden = Path(__file__).with_name(f"khan_{kind.__name__}.md")
    page = "\n".join(f"## Round {n}\n\n{prompt(call).user}\n" for n, call in enumerate(calls, 1))
    if request.config.getoption("--accept"):
        golden.write_text(page)
    assert page == golden.read_text()
    plain = await speeches(kind, None)
    assert all("Never concede" not in prompt(call).user for call in plain)


def test_agents_for_which_a_set_was_not_made_are_noted():
    def notes(**settings: bool) -> list[str]:
        return unsuitable_agents([Debate(JUDGE, Agent("alice", **settings), prompts=KHAN)])

    best = Debate(JUDGE, BestOf(2, Agent("alice", scratchpad=True), JUDGE), prompts=KHAN)
    assert unsuitable_agents([best]) == []
    assert notes(scratchpad=True) == unsuitable_agents([Debate(JUDGE, Agent("alice"))]) == []
    assert notes() == ["prompts khan are made for scratchpad: true; alice differs"]
    (both,) = notes(may_concede=True)
    assert "scratchpad: true, may_concede: false; alice + may concede differs" in both
