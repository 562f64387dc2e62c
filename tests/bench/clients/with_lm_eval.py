"""lm_eval: `generate_until` of its model `local-chat-completions`, which is what a task comes to.

It takes all requests at once and gives all replies at once, so there are no chains.
"""

import os

import asked
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, CachingLM
from lm_eval.api.registry import get_model


def calls(job: asked.Job) -> int:
    return _asked(job, _model(job))


def rerun(job: asked.Job) -> int:
    return _asked(job, CachingLM(_model(job), os.path.join(job.folder, "cache.db")))


def _model(job: asked.Job) -> LM:
    return get_model("local-chat-completions")(
        model=asked.MODEL,
        base_url=f"{job.url}/chat/completions",
        num_concurrent=job.width,
        max_gen_toks=asked.MAX_TOKENS,
    )


def _asked(job: asked.Job, model: LM | CachingLM) -> int:
    requests = [
        Instance("generate_until", {}, (model.apply_chat_template(asked.call(n)), {"until": []}), n)
        for n in range(job.first, job.first + job.count)
    ]
    return sum(bool(reply) for reply in model.generate_until(requests))


if __name__ == "__main__":
    asked.main(calls=calls, rerun=rerun)
