"""Curator: an `LLM` over a data set with a row for each call, its limits far above the server's.

It asks once for each row, so it has no chains."""

import os
from importlib.util import find_spec

import asked

# Nothing is sent or fetched elsewhere: prices and tokenizer are litellm's, which comes with it.
os.environ["TELEMETRY_ENABLED"] = "false"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["TIKTOKEN_CACHE_DIR"] = os.path.join(
    *find_spec("litellm").submodule_search_locations, "litellm_core_utils", "tokenizers"
)

from bespokelabs import curator


class Judge(curator.LLM):
    def prompt(self, row):
        return asked.call(row["n"])

    def parse(self, row, response):
        return {"n": row["n"], "reply": response}


def calls(job: asked.Job) -> int:
    judge = Judge(
        asked.MODEL,
        backend="openai",
        generation_params={"max_tokens": asked.MAX_TOKENS},
        backend_params={
            "max_concurrent_requests": job.width,
            "max_requests_per_minute": 10**7,
            "max_tokens_per_minute": 10**11,
        },
    )
    rows = [{"n": n} for n in range(job.first, job.first + job.count)]
    said = judge(rows, working_dir=job.folder).dataset
    return sum(bool(row["reply"]) for row in said)


if __name__ == "__main__":
    asked.main(calls=calls)
