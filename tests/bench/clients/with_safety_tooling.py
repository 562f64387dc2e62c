"""safety-tooling: one `InferenceAPI`, many calls at once, with its cache, as it is by default."""

import asyncio
from pathlib import Path

import asked
from safetytooling.apis import InferenceAPI
from safetytooling.data_models import ChatMessage, MessageRole, Prompt


def calls(job: asked.Job) -> int:
    return asyncio.run(_run(job, asked.calls))


def debates(job: asked.Job) -> int:
    return asyncio.run(_run(job, asked.debates))


async def _run(job: asked.Job, workload) -> int:
    api = InferenceAPI(
        cache_dir=Path(job.folder) / "cache",
        openai_base_url=job.url,
        openai_num_threads=job.width,
        openai_fraction_rate_limit=1,
    )

    async def say(messages: list[dict[str, str]]) -> str:
        turns = [ChatMessage(role=MessageRole(m["role"]), content=m["content"]) for m in messages]
        [reply] = await api(asked.MODEL, Prompt(messages=turns), max_tokens=asked.MAX_TOKENS)
        return reply.completion

    return await workload(job, say)


if __name__ == "__main__":
    asked.main(calls=calls, debates=debates, rerun=calls)
