"""The journal of batches, and the rehearsal server's endpoints under the vendors' own clients."""

import copy
from pathlib import Path
from typing import Any

import anthropic
import openai
import orjson
import pytest

from oversight.engine.accounting.ledger import sum_usage
from oversight.engine.batches.endpoint import Submission
from oversight.engine.batches.journal import BatchJournal
from oversight.engine.errors import RunFolderError
from oversight.engine.rehearsal import MockServer, Profile
from oversight.engine.rehearsal.profile import BatchProfile

FIRST = Submission("a1", "openai/gpt-4o", 3, 100.0, 30.0, 0.5)
SECOND = Submission("b2", "openai/gpt-4o", 2, 200.0, 20.0, 0.4)


def standing(journal: BatchJournal) -> Any:
    return copy.deepcopy({name: told for name, told in vars(journal).items() if name[0] != "_"})


def test_every_prefix_of_the_book_is_where_the_run_stood_then(tmp_path: Path) -> None:
    journal = BatchJournal(tmp_path)
    file, stood = tmp_path / "batches" / "book.jsonl", {0: standing(journal)}
    steps = [
        lambda: journal.intend(FIRST),
        lambda: journal.submitted("a1", "batch_1"),
        lambda: journal.foreign("batch_1"),
        lambda: journal.submitted("a1", "batch_2", guessed=True),
        lambda: journal.intend(SECOND),
        lambda: journal.dropped("b2"),
        lambda: journal.learn("openai/gpt-4o", 15.0),
        lambda: journal.land("batch_2", sum_usage([]), {"00": (400, b"no")}, ["11", "22"]),
        lambda: journal.forgive(),
    ]
    for step in steps:
        step()
        stood[file.stat().st_size] = standing(journal)
        if step is steps[-2]:
            assert journal.faults == {"00": (400, b"no")}
    assert (journal.intended, journal.out, journal.faults) == ({}, {}, {})
    assert (journal.began, journal.guessed, journal.tries) == (
        100.0,
        {"batch_2"},
        {"11": 1, "22": 1},
    )
    whole, last = file.read_bytes(), stood[0]
    for size in range(len(whole) + 1):
        file.write_bytes(whole[:size])
        last = stood.get(size, last)
        assert standing(BatchJournal(tmp_path, reads_only=True)) == last
        if size - 1 in stood:
            # What is written after a torn line begins a line of its own.
            again = BatchJournal(tmp_path)
            assert standing(again) == last
            again.learn("another", 1.0)
            assert BatchJournal(tmp_path, reads_only=True).room["another"] == 1.0


def test_a_book_of_another_version_is_not_guessed_at(tmp_path: Path) -> None:
    BatchJournal(tmp_path)
    (tmp_path / "batches" / "book.jsonl").write_bytes(b'{"handed": "over"}\n')
    with pytest.raises(RunFolderError, match="does not know"):
        BatchJournal(tmp_path)


def test_files_that_belong_to_no_batch_that_is_out_are_taken_away(tmp_path: Path) -> None:
    journal = BatchJournal(tmp_path)
    journal.intend(FIRST)
    for name in ("a1.calls", "a1.body", "zz.calls", "x.noted", "a1.results"):
        (tmp_path / "batches" / name).write_bytes(b"")
    BatchJournal(tmp_path)
    kept = sorted(file.name for file in (tmp_path / "batches").iterdir())
    assert kept == ["a1.calls", "book.jsonl"]


BODY = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
DESK = Profile(batch=BatchProfile(expired=0.5))


@pytest.mark.wire
async def test_openais_own_client_gets_along_with_the_rehearsals_desk() -> None:
    lines = [
        {"custom_id": f"c{n}", "method": "POST", "url": "/v1/chat/completions", "body": BODY}
        for n in range(8)
    ]
    async with (
        MockServer(DESK) as server,
        openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client,
    ):
        content = b"".join(orjson.dumps(line) + b"\n" for line in lines)
        file = await client.files.create(file=("in.jsonl", content), purpose="batch")
        made = await client.batches.create(
            input_file_id=file.id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
            metadata={"mark": "x"},
        )
        batch = await client.batches.retrieve(made.id)
        assert (batch.status, batch.metadata) == ("completed", {"mark": "x"})
        assert [each.id async for each in client.batches.list()] == [batch.id]
        found: dict[str, Any] = {}
        for name in (batch.output_file_id, batch.error_file_id):
            assert name is not None
            told = (await client.files.content(name)).content
            found |= {line["custom_id"]: line for line in map(orjson.loads, told.splitlines())}
    assert sorted(found) == [f"c{n}" for n in range(8)]
    codes = {(line["error"] or {}).get("code") for line in found.values()}
    assert codes == {None, "batch_expired"}


@pytest.mark.wire
async def test_anthropics_own_client_gets_along_with_the_rehearsals_desk() -> None:
    async with (
        MockServer(DESK) as server,
        anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0) as client,
    ):
        requests: Any = [{"custom_id": f"c{n}", "params": BODY} for n in range(8)]
        made = await client.messages.batches.create(requests=requests)
        batch = await client.messages.batches.retrieve(made.id)
        assert batch.processing_status == "ended"
        assert [each.id async for each in client.messages.batches.list()] == [batch.id]
        results = await client.messages.batches.results(made.id)
        kinds = {each.custom_id: each.result.type async for each in results}
    assert sorted(kinds) == [f"c{n}" for n in range(8)]
    assert set(kinds.values()) == {"succeeded", "expired"}
    assert batch.request_counts.succeeded == sum(kind == "succeeded" for kind in kinds.values())
