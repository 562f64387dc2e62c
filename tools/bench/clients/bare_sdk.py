"""The SDK at its barest: its raw `post` over aiohttp, bodies by orjson, and nothing else."""

from collections.abc import Awaitable, Callable

import asked
import httpx2
import orjson
import uvloop
from openai import AsyncOpenAI, DefaultAioHttpClient


def calls(job: asked.Job) -> int:
    return uvloop.run(_run(job, asked.calls))


async def _run(job: asked.Job, workload: Callable[[asked.Job, asked.Say], Awaitable[int]]) -> int:
    limits = httpx2.Limits(max_connections=job.width, max_keepalive_connections=job.width)
    client = AsyncOpenAI(http_client=DefaultAioHttpClient(limits=limits), max_retries=0)
    async with client:

        async def say(messages: list[dict[str, str]]) -> str:
            body = {"model": asked.MODEL, "messages": messages, "max_tokens": asked.MAX_TOKENS}
            response = await client.post(
                "/chat/completions", cast_to=httpx2.Response, content=orjson.dumps(body)
            )
            text: str = orjson.loads(response.content)["choices"][0]["message"]["content"]
            return text

        return await workload(job, say)


if __name__ == "__main__":
    asked.main(calls=calls)
