"""Runs with something to see in them."""

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
