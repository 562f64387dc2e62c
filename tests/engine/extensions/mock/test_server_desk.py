"""The vendors' own clients get along with the desk that takes batches in a rehearsal.

They are imported where they are used: that takes a second, in which the unit ring is collected.
"""

from typing import Any

import orjson
import pytest

from oversight.engine.extensions.mock.profile import BatchProfile, Profile
from oversight.engine.extensions.mock.server import MockServer

pytestmark = pytest.mark.wire

BODY = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
DESK = Profile(batch=BatchProfile(expired=0.5))


async def test_openais_own_client_gets_along_with_it():
    import openai

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


async def test_anthropics_own_client_gets_along_with_it():
    import anthropic

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
