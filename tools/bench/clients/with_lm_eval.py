"""lm_eval: `generate_until` of its model `local-chat-completions`, which is what a task comes to.

It takes all requests at once and gives all replies at once, so it has no chains."""

import asked
from lm_eval.api.instance import Instance
from lm_eval.api.registry import get_model


def calls(job: asked.Job) -> int:
    model = get_model("local-chat-completions")(
        model=asked.MODEL,
        base_url=f"{job.url}/chat/completions",
        num_concurrent=job.width,
        max_gen_toks=asked.MAX_TOKENS,
    )
    requests = [
        Instance("generate_until", {}, (model.apply_chat_template(asked.call(n)), {"until": []}), n)
        for n in range(job.first, job.first + job.count)
    ]
    return sum(bool(reply) for reply in model.generate_until(requests))


if __name__ == "__main__":
    asked.main(calls=calls)
