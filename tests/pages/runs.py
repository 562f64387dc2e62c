"""Runs with something to see in them."""

SMALL = """\
name: small
problems: {bundled: {name: arithmetic, limit: 6}}
agents: sim/strong
judges: [sim/judge, {kind: logprob, model: sim/weak}]
protocols: {naive_judge: , debate: {rounds: 1}, consultancy: {turns: 2}}
"""
"""A run in which nothing goes wrong."""

HARD = """\
name: hard
problems: {bundled: passages}
agents: {model: [sim/unruly, sim/strong], tools: [none, calculator]}
judges:
  - {kind: stated, model: sim/unruly}
  - {kind: logprob, model: sim/judge}
protocols:
  naive_judge:
  open_consultancy:
  consultancy: {turns: 2}
  debate: {simultaneous: [true, false], rounds: 2}
  critique:
  market_making:
"""
"""Speakers that refuse, judges that cannot be read, tools, quotes."""

LIVE = """\
name: live
problems: {bundled: arithmetic}
agents: {model: [compatible/lab/large, compatible/lab/small]}
judges: {kind: stated, model: compatible/lab/judge}
protocols: {naive_judge: , debate: {rounds: 2}, consultancy: {turns: 2}}
providers: {compatible/lab: {base_url: "http://127.0.0.1:1/v1"}}
models:
  compatible/lab/large: {requests: 900}
  compatible/lab/judge: {concurrency: 6}
"""
"""Real requests under limits, to a server of this machine."""
