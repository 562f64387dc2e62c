"""Every loader reads or refuses files as in `loaded.md`. Problems in our own format are read,
refused with reasons, written and read again."""

import asyncio
import csv
import gzip
import io
import json
import math
import os
import random
import shutil
import stat
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pyarrow import feather, parquet
from pydantic import BaseModel, ConfigDict, FiniteFloat

from examples.wrong_answers import known_questions
from oversight.protocols import NaiveJudge, PublishedJudge, Recorded, StatedJudge
from oversight.protocols.datasets.checkers import Checker, Grade, extracted
from oversight.protocols.datasets.forms import Hub, JsonLines, Published
from oversight.protocols.datasets.jsonl import write_jsonl
from oversight.protocols.datasets.loader import Loader, grouped
from oversight.protocols.datasets.open_tasks import read_tasks
from oversight.protocols.datasets.rows import csv_rows, each_row, read_bytes, regular, strict
from oversight.protocols.datasets.study import Study, answer_digest
from oversight.protocols.datasets.trajectories import Trajectories
from oversight.protocols.errors import DatasetError, NotRun
from oversight.protocols.question import LARGEST, Answer, Problem, Question
from tests.fakes import Scripted
from tests.sessions import sessions
from tests.tables import expressions
from tests.world import shipment

FILE = Path(__file__).with_name("loaded.md")
FORMS = {
    "Mmlu": "mmlu", "MmluPro": "mmlu_pro", "SuperGpqa": "supergpqa", "LogiQa": "logiqa",
    "Gpqa": "gpqa", "TruthfulQa": "truthfulqa", "Quality": "quality", "BoolQ": "boolq",
    "ProntoQa": "prontoqa", "Solib": "solib",
}  # fmt: skip
PUBLISHED = {name: partial(Published, form=form) for name, form in FORMS.items()}
Mmlu, Quality, BoolQ = (PUBLISHED[name] for name in ("Mmlu", "Quality", "BoolQ"))
ProntoQa, Solib, TruthfulQa = (PUBLISHED[name] for name in ("ProntoQa", "Solib", "TruthfulQa"))
GIVEN = json.loads(Path(__file__).with_name("rows.json").read_text())
"""Rows of each format, by name."""
ROWS, ANSWERS = GIVEN["ROWS"], GIVEN["ANSWERS"]
STORY = {"article_id": "7", "article": "A child lit the lamp.", "questions": [ROWS["ASKED"]]}


class Line(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    name: str
    size: FiniteFloat = 0.0


def best(problem: Problem) -> str:
    return problem.question.answers[problem.best].text


def shown(problems: tuple[Problem, ...]) -> list[str]:
    """Each in a line; the right answer first, whatever its label."""
    lines = []
    for problem in problems:
        answers = [f"{a.text} ({a.work})" if a.work else a.text for a in problem.question.answers]
        right = answers.pop(problem.best)
        group = f" of {problem.group}" if problem.group else ""
        passage = f" {problem.question.passage!r}" if problem.question.passage else ""
        question = f"{problem.id}{group}:{passage} {problem.question.text!r}"
        lines.append(f"{question} {right!r}, not {', '.join(map(repr, sorted(answers)))}")
    return lines


def load(kind: Callable[..., Loader], *rows: Mapping[str, object], **settings: object) -> list[str]:
    """Problems of a file of JSON Lines."""
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return shown(kind("rows.jsonl", **settings).load())


def array(kind: Callable[..., Loader], *rows: Mapping[str, object], **more: object) -> list[str]:
    Path("rows.json").write_text(json.dumps(rows, indent=1))
    return shown(kind("rows.json", **more).load())


def table(kind: Callable[..., Loader], *records: list[str], **settings: object) -> list[str]:
    out = io.StringIO()
    csv.writer(out).writerows(records)
    Path("rows.csv").write_bytes(b"\xef\xbb\xbf" + out.getvalue().encode())
    return shown(kind("rows.csv", **settings).load())


def mapped(name: str, columns: Mapping[str, object], *rows: Mapping[str, object]) -> list[str]:
    """Problems of a table, read by its column names. The file name's ending gives its form."""
    table = pyarrow.Table.from_pylist(list(rows))
    match Path(name).suffix:
        case ".parquet":
            parquet.write_table(table, name)
        case ".arrow":
            with (
                pyarrow.OSFile(name, "wb") as file,
                pyarrow.ipc.new_stream(file, table.schema) as to,
            ):
                to.write_table(table)
        case ".feather":
            feather.write_feather(table, name, chunksize=1)  # several batches
        case ".tsv":
            lines = [list(rows[0]), *(list(map(str, row.values())) for row in rows)]
            Path(name).write_text("".join("\t".join(line) + "\n" for line in lines))
    return shown(JsonLines(name, columns=columns).load())


def arrow(kind: Callable[..., Loader], *rows: Mapping[str, object], **more: object) -> list[str]:
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), "rows.parquet")
    return shown(kind("rows.parquet", **more).load())


def written(name: str, content: str | bytes, **settings: object) -> list[str]:
    """Lines of a file's problems, each with the letter of its right answer before its answers, then
    the notes of the loader. The default `columns` are ARC's."""
    data = content if isinstance(content, bytes) else content.encode()
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    settings = {"columns": ARC} | settings
    problems, notes = JsonLines(name, **settings).read()
    lines = []
    for item in problems:
        answers = " ".join(f"({a.label}) {a.text!r}" for a in item.question.answers)
        right = item.question.answers[item.best].label
        lines.append(f"{item.id}{f' of {item.group}' * bool(item.group)}: {right} of {answers}")
    return [*lines, *notes.lines(), *notes.changes("letters", "references")]


def lines(*rows: Mapping[str, object]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def asked(key: object, *options: str, **more: object) -> dict[str, object]:
    """A row of a table of choices."""
    return {"q": f"Which is {key}?", "o": list(options), "k": key, **more}


ARC = {"question": "q", "choices": "o", "answer": "k"}


def nested(*rows: Mapping[str, object], **settings: object) -> list[str]:
    """Problems of a file as PrOntoQA's program writes it."""
    shots = {"question": "Every zumpus is shy.", "query": "Q", "answer": "False"}
    content = {
        f"example{n}": {"in_context_example0": shots, "test_example": row}
        for n, row in enumerate(rows, 1)
    }
    Path("rows.json").write_text(json.dumps(content, indent=2))
    return shown(ProntoQa("rows.json", **settings).load())


def known(*rows: Mapping[str, object]) -> list[str]:
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return [repr(question) for question in known_questions(Path("rows.jsonl"))]


def without(row: Mapping[str, object], *keys: str) -> dict[str, object]:
    return {key: value for key, value in row.items() if key not in keys}


ANSWER_YES, ANSWER_NO = map(answer_digest, ("yes", "no"))


def written_study(folder: Path) -> Path:
    """A study of the moon in which the answers have different orders: yes, which is right, is (B)
    in the debate and (A) in the advice. Only no is argued for in the advice."""
    yes, no = ANSWER_YES, ANSWER_NO
    quotes = [{"text": "is", "at": [9, 11]}, {"text": "is", "at": [0, 2]}, {"text": "is round"}]
    turns = [
        {"round": 1, "speaker": "Debater A", "side": "A", "text": "It is flat."},
        {"round": 1, "speaker": "Debater B", "side": "B", "text": "No.", "quotes": quotes},
        {"round": 1, "speaker": "Judge", "text": "Why?"},
        {"round": 2, "speaker": "Debater B", "side": "B", "text": "I looked."},
        {"round": 2, "speaker": "Judge", "text": "Thanks."},
    ]
    debate = {"id": "c1", "problem": "moon", "setting": "debate", "order": [no, yes], "source": "s"}
    advice = debate | {"id": "c2", "setting": "advice", "order": [yes, no], "argued": "B"}

    def judged(judge: str, *numbers: tuple[int, float]) -> dict[str, object]:
        beliefs = [{"round": n, "probs": [1 - p, p]} for n, p in numbers]
        return {"conversation": "c1", "judge": judge, "beliefs": beliefs}

    moon = ROWS["MOON"] | {"graded": True, "answers": [ANSWERS[0], ANSWERS[1] | {"flaw": "x"}]}
    for name, rows in {
        "problems": [moon],
        "sources": [{"id": "s", "text": "The moon is round."}],
        "conversations": [debate | {"turns": turns}, advice | {"included": False}],
        "judgements": [
            judged("Ann", (0, 0.5), (1, 0.6), (2, 0.9)),
            judged("Ben", (0, 0.5), (2, 0.7)),
            judged("Ben", (0, 0.5)) | {"mode": "timed", "included": False},
        ],
    }.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


class Fetched(Hub):
    """A data set of the Hub whose files are on this machine."""

    def _snapshot(self) -> Path:
        return Path("c0ffee").absolute()


def hub(files: Mapping[str, str], **settings: object) -> list[str]:
    """The problems of `lab/Quiz` with these files, and then the notes of the loader."""
    shutil.rmtree("c0ffee", ignore_errors=True)
    for name, text in files.items():
        file = Path("c0ffee", name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    problems, notes = Fetched("lab/Quiz", **settings).read(Path("elsewhere"))
    return [*shown(problems), *notes.lines()]


def studied(name: str, old: str, new: str) -> list[str]:
    """The study after an edit of one of its files."""
    file = written_study(Path()) / f"{name}.jsonl"
    file.write_text(file.read_text().replace(old, new))
    return shown(Study(".").load())


def runs(*rows: Mapping[str, object], **settings: object) -> list[str]:
    steps = [{"kind": "action", "text": "ls"}]
    full = [{"id": f"r{n}", "label": "honest", "steps": steps, **row} for n, row in enumerate(rows)]
    settings = {"show": ("action", "thought"), **settings}
    return load(lambda path: Trajectories(path=path, **settings), *full)


def tasks(*rows: Mapping[str, object]) -> list[str]:
    Path("tasks.jsonl").write_text(lines(*rows))
    read = read_tasks(Path("tasks.jsonl"), Checker("numeric"))
    return [f"{task.id} of {task.group}: {task.truth}" for task in read]


def grades(checker: Checker, column: object, *texts: str) -> list[str]:
    """The grade of each text, or why it is ungraded."""

    async def every() -> list[Grade]:
        truth = checker.truth(column)
        return [await checker.grade(text, truth, {"id": "t"}) for text in texts]

    words = {True: "right", False: "wrong", None: "ungraded: "}
    return [words[grade.right] + grade.reason for grade in asyncio.run(every())]


NAMES = {
    **ROWS,
    **{
        item.__name__: item
        for item in (
            load, array, table, nested, known, without, mapped, arrow, written, lines, asked, runs,
            tasks, studied, shipment, hub, Fetched, Published, Checker, grades, extracted,
        )
    },
    **PUBLISHED,
    **{"ARC": ARC, "json": json, "gzip": gzip, "ANSWER_YES": ANSWER_YES, "ANSWER_NO": ANSWER_NO},
    **{"JsonLines": JsonLines, "Study": Study, "STORY": STORY, **GIVEN},
    **dict(zip(("YES", "NO"), ANSWERS, strict=True)),
    "rows": lambda data: [f"{n} {row.name}" for n, row in strict(each_row("d.jsonl", data, Line))],
    "records": lambda data: [f"{n} {row}" for n, row in csv_rows("d.csv", data)],
}  # fmt: skip


@sessions(FILE)
def test_a_file_is_read_as_written_or_refused_by_line(session, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = dict(NAMES)
    session.check(request, expressions(names), names)


def test_folders_pipes_and_devices_are_refused_by_their_kind_and_never_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.mknod(tmp_path / "socket", stat.S_IFSOCK | 0o600)
    kinds = {"/dev/zero": "a device", "pipe": "a pipe", "socket": "a socket", ".": "a folder"}
    for name, kind in kinds.items():
        for read in (read_bytes, regular):
            with pytest.raises(DatasetError, match=f"is {kind}; name a file with the rows"):
                read(tmp_path / name)
    with pytest.raises(DatasetError, match="file not found"):
        read_bytes(tmp_path / "none.jsonl")


def test_compressed_data_may_have_several_parts_and_a_limit_for_all(tmp_path, monkeypatch):
    monkeypatch.setattr("oversight.protocols.datasets.rows.MAX_BYTES", 10)
    for sizes, fits in (((10,), True), ((11,), False), ((6, 4), True), ((6, 5), False)):
        (tmp_path / "d.gz").write_bytes(b"".join(gzip.compress(b"x" * size) for size in sizes))
        if fits:
            assert read_bytes(tmp_path / "d.gz") == b"x" * 10
        else:
            with pytest.raises(DatasetError, match=r"d\.gz: holds more than 10 bytes; split it"):
                read_bytes(tmp_path / "d.gz")


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (Quality, STORY), (BoolQ, ROWS["LAMP"]), (ProntoQa, ROWS["WUMPUS"]), (Mmlu, ROWS["TOOLS"]),
        (Solib, ROWS["JARS"]), (partial(JsonLines, relabel=True), ROWS["MOON"]),
        (JsonLines, ROWS["MOON"] | {"answers": [without(item, "label") for item in ANSWERS]}),
    ],
    ids=lambda item: getattr(item, "__name__", "-"),
)  # fmt: skip
def test_labels_are_drawn_by_seed_and_content(tmp_path, kind, row):
    path = tmp_path / "rows.jsonl"
    texts = {name: str(row[name]) for name in ("question", "article") if name in row}
    changed = [{name: f"{n} {text}" for name, text in texts.items()} for n in range(60)]
    lines = [json.dumps(row | {"id": f"q{n}"} | changed[n]) + "\n" for n in range(60)]
    path.write_text("".join(lines))
    load = partial(kind, str(path))
    first, other = load().load(), load(seed=1).load()
    assert first == load().load() and len({best(problem) for problem in first}) == 1
    assert [problem.best for problem in first] != [problem.best for problem in other]
    # Of 60 fair draws, 15 to 45 in all but one of 10,000 cases.
    assert 15 <= sum(problem.best for problem in first) <= 45
    shuffled, otherwise = load(shuffle=True).load(), load(shuffle=True, seed=1).load()
    ids, mixed, again = ([item.id for item in group] for group in (first, shuffled, otherwise))
    assert sorted(mixed) == sorted(again) == sorted(ids) and ids != mixed != again
    # A higher limit keeps the problems of a lower one.
    assert load(limit=10).load() == first[:10]
    assert load(limit=10, shuffle=True).load() == shuffled[:10]


FULL = {
    "q": "Which?", "k": "yes", "w": "no", "v": "nay", "s": "So yes.", "t": "So no.", "p": "A text.",
    "g": "sky", "i": "own",
}  # fmt: skip
WIDE = {
    "question": "q", "answer": "k", "wrong": ["w", "v"], "work": "s", "wrong_work": "t",
    "passage": "p", "group": "g", "id": "i",
}  # fmt: skip


@pytest.mark.parametrize("value", [None, math.nan])
@pytest.mark.parametrize("column", FULL)
def test_null_and_nan_are_missing_in_every_column(tmp_path, column, value):
    def read(row: Mapping[str, object]) -> tuple[Problem, ...]:
        parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "d.parquet")
        return JsonLines("d.parquet", columns=WIDE).load(tmp_path)

    if column in "qkw":
        with pytest.raises(DatasetError, match=rf"d\.parquet:1: {column}: missing, and required"):
            read(FULL | {column: value})
    else:
        assert read(FULL | {column: value}) == read(FULL | {column: ""}) != read(FULL)


CHOICES = {"question": "q", "choices": ["A", "B", "C", "D"], "answer": "key"}
WRONG = {"question": "q", "answer": "A", "wrong": ["B", "C", "D"]}


@pytest.mark.parametrize(
    ("columns", "settings"),
    [
        (None, {}), (None, {"relabel": True}), (None, {"proposals": True}), (CHOICES, {}),
        (CHOICES, {"answers": 2}), (WRONG, {"answers": 3, "proposals": True}),
    ],
)  # fmt: skip
def test_edits_of_other_rows_change_no_question(tmp_path, columns, settings):
    """Random edits, 204 over all forms: a row that stays asks the same question as before."""
    path, rng = tmp_path / "rows.jsonl", random.Random(7)

    def made(n: int) -> dict[str, object]:
        texts = {letter: f"{letter} {n * k}" for k, letter in enumerate("ABCD", 2)}
        if columns is not None:
            return {"q": f"Which of {n}?", "key": "ABCD"[n % 4], **texts}
        answers = [
            {"text": text, "value": 1 - 2 * (k > 0)} for k, text in enumerate(texts.values())
        ]
        return {"id": f"q{n}", "question": f"Which of {n}?", "answers": answers}

    def asked() -> dict[str, set[tuple[Question, tuple[float, ...]]]]:
        path.write_text("".join(f"{json.dumps(made(n))}\n" for n in rows))
        problems = JsonLines(str(path), columns=columns, **settings).load()
        by_text: dict[str, set[tuple[Question, tuple[float, ...]]]] = {}
        for problem in problems:
            text = problem.question.text.partition("\n")[0]
            by_text.setdefault(text, set()).add((problem.question, problem.values))
        return by_text

    rows, new = list(range(6)), 6
    before = asked()
    for _ in range(34):
        at = rng.randrange(len(rows))
        match rng.choice(("delete", "insert", "move", "edit")):
            case "delete" if len(rows) > 4:
                del rows[at]
            case "move":
                rows.insert(rng.randrange(len(rows)), rows.pop(at))
            case "edit":
                rows[at], new = new, new + 1
            case _:
                rows.insert(at, new)
                new += 1
        after = asked()
        assert all(before[text] == after[text] for text in before.keys() & after.keys())
        before = after


def test_one_of_several_equally_good_answers_is_drawn(tmp_path):
    """One of the distractors that equally many found best, of all distractors without such ratings,
    and of the right answers that say something."""
    question, path = ROWS["ASKED"], tmp_path / "rows.jsonl"
    tied = question | {"validation": [{"untimed_best_distractor": n} for n in (1, 4)]}
    for row, expected in (
        (tied, {"The cook", "Nobody"}),
        (without(question, "validation"), {"The cook", "The pilot", "Nobody"}),
    ):
        path.write_text(json.dumps(STORY | {"questions": [row] * 40}))
        problems = Quality(str(path)).load()
        assert problems == Quality(str(path)).load()
        texts = {answer.text for problem in problems for answer in problem.question.answers}
        assert texts == expected | {"A child"}
    path.write_text(json.dumps(ROWS["SKY"]))
    drawn = {best(TruthfulQa(str(path), seed=seed).load()[0]) for seed in range(20)}
    assert drawn == {"Blue", "It is blue"}


def test_labels_that_are_drawn_change_the_order_of_all_answers_and_nothing_else(tmp_path):
    answers = tuple(Answer(text.upper(), text, f"work of {text}") for text in "xyzw")
    question = Question("Which?", answers, "A passage.", True, "CREATE TABLE x(y);")
    base = Problem("q", question, (1.0, 0.5, 0.0, -1.0), "group", ("", "y is bad", "", ""))
    write_jsonl([base], tmp_path / "d.jsonl")
    orders = set()
    for seed in range(20):
        (drawn,) = JsonLines("d.jsonl", relabel=True, seed=seed).load(tmp_path)
        order = ["xyzw".index(answer.text) for answer in drawn.question.answers]
        orders.add(tuple(k for k in order if k))
        labelled = tuple(
            replace(answers[n], label=label) for n, label in zip(order, "ABCD", strict=True)
        )
        values, flaws = ([fields[n] for n in order] for fields in (base.values, base.flaws))
        moved = replace(question, answers=labelled)
        assert drawn == replace(base, question=moved, values=tuple(values), flaws=tuple(flaws))
    assert len(orders) > 3


@pytest.fixture
def study(tmp_path) -> Path:
    return written_study(tmp_path)


async def test_a_study_is_judged_again_as_its_own_judges_did(study):
    """The known truth: they give the right answer .5 before all, .6 and still .5 after one round,
    .9 and .7 after two, so that their mean has a Brier ASD of 0, .2 and 1.2."""
    (problem,) = Study(str(study)).load()
    judge, ask = PublishedJudge(), Scripted(lambda call: "nobody is asked")
    protocols = [NaiveJudge(judge), *(Recorded(judge, rounds=n) for n in (1, 2, 0))]
    asd = [await protocol.agent_score_difference(problem, ask) for protocol in protocols]
    assert asd == pytest.approx([0, 0.2, 1.2, 1.2]) and not ask.calls
    assert not problem.question.passage
    verdict = await protocols[1].run(problem.question, problem.question.answers[0], ask)
    assert [turn.side.text for turn in verdict.transcript.turns] == ["no", "yes"]
    assert [quote.verified for quote in verdict.transcript.turns[1].quotes] == [True, False, True]
    verdict = await protocols[2].run(problem.question, problem.question.answers[0], ask)
    assert [turn.text for turn in verdict.transcript.turns[2:]] == ["Why?", "I looked."]


async def test_a_study_is_read_as_asked_and_run_in_its_original_worlds(study):
    (debate, advice) = Study(str(study), excluded=True, passages=True).load()
    assert [debate.values, advice.values] == [(-1, 1), (1, -1)] and debate.question.graded
    assert debate.question.passage == "The moon is round." and best(advice) == best(debate) == "yes"
    assert Study(str(study), setting="advice", excluded=True).load()[0].id == "c2"
    write_jsonl([debate, advice], study / "again.jsonl")
    assert JsonLines("again.jsonl").load(study) == (debate, advice)
    assert debate.group == advice.group == "s" and debate.flaws == advice.flaws == ()
    timed = NaiveJudge(PublishedJudge("timed"))
    assert [v.probs for v in await timed.worlds(debate, Scripted(str))] == [(0.5, 0.5)] * 2
    with pytest.raises(NotRun, match="nobody judged this conversation timed"):
        await timed.worlds(Study(str(study)).load()[0], Scripted(str))
    with pytest.raises(ValueError, match="oose from advice, debate"):
        Study(str(study), setting="advice").load()
    file = study / "conversations.jsonl"
    file.write_text(file.read_text().replace("Debater A", r"Judge\">\n</turn>"))
    with pytest.raises(DatasetError, match=r"jsonl:1: turns\[0\]\.speaker: 'Judge\">"):
        Study(str(study)).load()
    run = partial(Recorded(StatedJudge("judge")).run, advice.question)
    ask = Scripted(lambda call: "A: 30%\nB: 70%")
    assert (await run(advice.question.answers[1], ask)).probs == pytest.approx((0.3, 0.7))
    with pytest.raises(NotRun, match="alone was argued for"):
        await run(advice.question.answers[0], ask)


def test_bad_rows_are_skipped_and_counted_and_others_keep_their_names(tmp_path, caplog):
    jars = ROWS["JARS"]
    bad = [jars | {"answer_incorrect": {"numeric": number}} for number in ("36.0", "many")]
    (tmp_path / "a.json").write_text(json.dumps([jars, *bad, jars]))
    problems, notes = Solib("a.json", on_bad_row="skip").read(tmp_path)
    assert [problem.id for problem in problems] == ["solib-1", "solib-4"]
    assert [fault.line for fault in notes.bad] == [2, 3] and notes.rows == 4
    assert "skipped rows: 2 of 4" in next(notes.lines())
    Solib("a.json", on_bad_row="skip").load(tmp_path)
    assert "a.json: 2 of 4 rows are skipped" in caplog.text


def test_error_lists_twenty_bad_rows_after_the_whole_file(tmp_path):
    """Also rows that a limit would not take: a data set is never read in part."""
    lines = [json.dumps(ROWS["MOON"]), *["not json"] * 22, json.dumps({"id": "x"})]
    (tmp_path / "d.jsonl").write_text("\n".join(lines))
    with pytest.raises(DatasetError, match=r"d\.jsonl:2: 23 of 24 rows are wrong") as fault:
        JsonLines("d.jsonl", limit=1).load(tmp_path)
    assert str(fault.value).count("not valid JSON") == 20 and "… and 3 more" in str(fault.value)
    assert len(JsonLines("d.jsonl", on_bad_row="skip").load(tmp_path)) == 1


@pytest.mark.parametrize("labels", [True, False])
def test_a_conversation_needs_the_labels_of_its_row(tmp_path, labels):
    row = ROWS["MOON"] | {"conversation": {"setting": "debate", "turns": []}}
    if not labels:
        row |= {"answers": [without(item, "label") for item in ANSWERS]}
    (tmp_path / "d.jsonl").write_text(json.dumps(row))
    with pytest.raises(DatasetError, match=r"d\.jsonl:1: conversation: it names labels"):
        JsonLines("d.jsonl", relabel=labels).load(tmp_path)


words = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip)
grades = st.lists(st.floats(-LARGEST, LARGEST), min_size=2, max_size=5, unique=True)


@given(words, st.text(st.characters(codec="utf-8")), grades, st.booleans())
def test_written_problems_are_read_back_the_same(tmp_path_factory, text, work, values, graded):
    path = tmp_path_factory.mktemp("written") / "d.jsonl"
    answers = tuple(Answer(f"L{n}", f"{text} {n}a", work) for n in range(len(values)))
    flaws = (text, *("" for _ in values[1:]))
    full = Problem("moon", Question(text, answers, work, graded, work), tuple(values), "sky", flaws)
    spare = replace(full, id="sun", question=Question(text, answers), group="", flaws=())
    write_jsonl([full, spare], path)
    assert JsonLines(str(path)).load() == grouped((full, spare))


def test_nothing_is_written_that_could_not_be_read_back(tmp_path):
    problem, path = shipment(0), tmp_path / "d.jsonl"
    lone = replace(problem, id="lone", question=replace(problem.question, text="a\ud800"))
    for wrong in (problem, replace(problem, id=""), lone):
        with pytest.raises(DatasetError, match=r"d\.jsonl:2"):
            write_jsonl([problem, wrong], path)
        assert not path.exists()
