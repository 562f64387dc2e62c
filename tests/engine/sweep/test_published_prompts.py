"""Prompts of published studies, from checkouts that are laid out as theirs are."""

from pathlib import Path

import pytest

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.run.manifest import read_manifest
from oversight.engine.run.opened import open_run
from oversight.protocols import Agent, Debate, StatedJudge
from oversight.protocols.prompts.prompt_set import PromptError, default_prompts
from oversight.protocols.prompts.published import PUBLISHED
from oversight.protocols.transcript import Transcript
from tests.engine.sweep_files import sweep_file
from tests.fakes import CRATES

KHAN, KHANS_JUDGE, KHANS_DEBATER, SOLIB = (
    (Path(__file__).parent / "published" / name).read_text()
    for name in ("khan.yaml", "khans_judge.yaml", "khans_debater.txt", "solib.txt")
)
SWEEP = """\
problems: {bundled: {name: arithmetic, limit: 1}}
agents: sim/strong
judges: sim/judge
protocols: [naive_judge, debate, consultancy]
prompts: {from: STUDY, folder: checkout}
"""


def checkout(place: Path, study: str) -> Path:
    """A checkout with every file that is read of a study."""
    for name in PUBLISHED[study].files.values():
        file = place / "checkout" / PUBLISHED[study].folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        khan = KHANS_JUDGE if name.startswith("judge") else KHAN
        file.write_text(khan if study == "llm_debate" else SOLIB)
    return place / "checkout"


def test_a_message_keeps_its_words_and_is_laid_out_as_ours(tmp_path):
    khan = PUBLISHED["llm_debate"].blocks(checkout(tmp_path / "a", "llm_debate"))
    assert khan["debate.debater"] == KHANS_DEBATER.rstrip()
    judge = "Debater A speaks for answer A.\n\nThink in <private></private> tags."
    assert khan["consultancy.judge"] == judge
    assert khan["debate.rules"] == ""
    solib = PUBLISHED["solib"].blocks(checkout(tmp_path / "b", "solib"))
    assert solib["consultancy.client"] == "Argue briefly. Be clear."
    assert solib["propaganda.advocate"].startswith("You are Advocate {label}. Your answer is (")


@pytest.mark.parametrize("study", list(PUBLISHED))
def test_a_sweep_reads_them_and_its_run_folder_keeps_them(place, command, study):
    where = checkout(place, study)
    (place / "s.yaml").write_text(SWEEP.replace("STUDY", study))
    ran = command("run", "s.yaml", "--run-folder", "run")
    assert ran.code == 0, ran.err
    where.rename(place / "elsewhere")
    assert command("replay", "run").code == 0
    words = [row.protocol.words for row in open_run(place / "run").sweep.rows]
    assert {each.name for each in words} == {study}
    assert all(each.digest != default_prompts().digest for each in words)
    assert list(read_manifest(place / "run").prompt_sets) == [f"{study} in checkout"]


def test_single_blocks_of_theirs_may_be_changed(tmp_path):
    where = checkout(tmp_path, "solib")
    told = f"{{from: solib, folder: {where}, debate: {{judge: Judge well.}}}}"
    text = SWEEP.replace("{from: STUDY, folder: checkout}", told)
    words = sweep_file(text).sweep({}).rows[1].protocol.words
    assert words.text("debate.judge") == "Judge well."
    assert words.text("debate.debater").endswith("Argue briefly. Be clear.")


async def test_what_a_speaker_thinks_is_kept_and_its_speech_is_what_stands_in_its_marks(tmp_path):
    blocks = PUBLISHED["llm_debate"].blocks(checkout(tmp_path, "llm_debate"))
    words = default_prompts().changed("khan", blocks)

    async def ask(call: Call) -> Reply:
        return Reply("<private>It is B.</private>\nWell:\n<speech>It is A.</speech>\nDone.")

    debate = Debate(StatedJudge("m"), Agent("m"), rounds=1, prompts=words)
    transcript = await debate.converse(Transcript(CRATES), CRATES.answers[0], ask)
    assert {turn.text for turn in transcript.turns} == {"It is A."}
    plain = await Debate(StatedJudge("m"), Agent("m"), rounds=1).converse(
        Transcript(CRATES), CRATES.answers[0], ask
    )
    assert "It is B." in plain.turns[0].text, "nobody was told that it may think there"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("prompts: {}", r"prompts\.messages: Field required"),
        ("prompts: {messages: [{role: user, content: <STORY>}]}", "it has no words"),
        ("{", "is not laid out as it was"),
    ],
)
def test_a_file_of_another_layout_is_named(tmp_path, text, reason):
    where = checkout(tmp_path, "llm_debate")
    changed = where / "core/config/experiment/judge/debate/default.yaml"
    changed.write_text(text)
    with pytest.raises(PromptError, match=reason) as fault:
        PUBLISHED["llm_debate"].blocks(where)
    assert str(changed) in str(fault.value)
