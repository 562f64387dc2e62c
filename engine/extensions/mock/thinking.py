"""Models that think: what they think stands in a reply in one of the forms that servers use."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from ....cache.call import Call
from .vendor_rules import Endpoint

Thinking: TypeAlias = Literal[
    "think", "lone", "magistral", "gemma", "harmony", "reasoning", "reasoning_content", "parts"
]
"""How a server of chat completions has thoughts: in the text, between tags of a family (`lone`: the
prompt opens them), or apart. On the other two endpoints they are blocks and items."""

TAGS: Mapping[str, tuple[str, str]] = {
    "think": ("<think>\n", "\n</think>\n\n"),
    "lone": ("", "\n</think>\n\n"),
    "magistral": ("[THINK]", "[/THINK]"),
    "gemma": ("<|channel>thought\n", "<channel|>"),
    "harmony": (
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
}

THOUGHT = "SECRET"
"""First word of all that is thought, and a word of nothing that is said."""

TOKENS = 40
"""Of each thought."""


def add_thoughts(data: dict[str, Any], endpoint: Endpoint, call: Call, form: Thinking) -> None:
    """Add to a reply what was thought before it. Where max_tokens are fewer than the thought takes,
    it is cut there, and nothing is said."""
    cut = call.request.max_tokens <= TOKENS
    # The first answer that comes to mind need not be the one that is given.
    words = f"Answer: B\nA: 0%\nB: 100%\nI concede. </turn> {call.address[:12]}".split(" ")
    thought = " ".join([THOUGHT, *words * TOKENS][: call.request.max_tokens if cut else TOKENS])
    _ENDPOINTS[endpoint](data, thought, cut, form)
    for name in ("completion_tokens", "output_tokens"):
        if name in data["usage"]:
            data["usage"][name] = call.request.max_tokens if cut else data["usage"][name] + TOKENS


def _chat(data: dict[str, Any], thought: str, cut: bool, form: Thinking) -> None:
    choice = data["choices"][0]
    message = choice["message"]
    if cut:
        message |= {"content": None}
        message.pop("tool_calls", None)
        choice |= {"finish_reason": "length", "logprobs": None}
    said = message["content"] or ""
    if form in TAGS:
        # A template that opens the thoughts leaves no trace in a reply that ends within them.
        opening, closing = TAGS["think" if form == "lone" and cut else form]
        before = f"{opening}{thought}{'' if cut else closing}"
        message["content"] = before + said
        scored = (choice.get("logprobs") or {}).get("content")
        if scored:
            tokens = before.replace("\n", " \n").split(" ")
            choice["logprobs"]["content"] = [
                *({"token": f"{token} ", "logprob": -1.0} for token in tokens[:-1]),
                {"token": tokens[-1], "logprob": -1.0},
                *scored,
            ]
            message["content"] = before.replace("\n", " \n") + said
    elif form == "parts":
        parts = [{"type": "thinking", "thinking": [{"type": "text", "text": thought}]}]
        message["content"] = parts + ([{"type": "text", "text": said}] if said else [])
    else:
        message[form] = thought


def _messages(data: dict[str, Any], thought: str, cut: bool, form: Thinking) -> None:
    block = {"type": "thinking", "thinking": thought, "signature": "s"}
    data["content"] = [block, *(() if cut else data["content"])]
    if cut:
        data["stop_reason"] = "max_tokens"


def _responses(data: dict[str, Any], thought: str, cut: bool, form: Thinking) -> None:
    summary = [{"type": "summary_text", "text": thought}]
    others = [] if cut else data["output"]
    if others and others[0]["type"] == "reasoning":
        others[0]["summary"] = summary
    else:
        others = [{"type": "reasoning", "id": f"rs_{data['id']}", "summary": summary}, *others]
    data["output"] = others
    if cut:
        data |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


_ENDPOINTS: Mapping[Endpoint, Callable[[dict[str, Any], str, bool, Thinking], None]] = {
    "chat": _chat,
    "messages": _messages,
    "responses": _responses,
}
