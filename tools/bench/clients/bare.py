"""The bare loop: aiohttp and uvloop, and nothing else that a benchmark needs."""

from collections.abc import Awaitable, Callable

import aiohttp
import asked
import orjson
import uvloop


def calls(job: asked.Job) -> int:
    return uvloop.run(_run(job, asked.calls))


def debates(job: asked.Job) -> int:
    return uvloop.run(_run(job, asked.debates))


async def _run(job: asked.Job, workload: Callable[[asked.Job, asked.Say], Awaitable[int]]) -> int:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def say(messages: list[dict[str, str]]) -> str:
            body = {"model": asked.MODEL, "messages": messages, "max_tokens": asked.MAX_TOKENS}
            async with session.post(
                f"{job.url}/chat/completions",
                data=orjson.dumps(body),
                headers={"content-type": "application/json"},
            ) as response:
                told = orjson.loads(await response.read())
            text: str = told["choices"][0]["message"]["content"]
            return text

        return await workload(job, say)


if __name__ == "__main__":
    asked.main(calls=calls, debates=debates)
