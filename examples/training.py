"""Supervised and preference data for TRL, from the tables of a run. No true value is read.

oversight export tables RUN --requests --format jsonl -o tables
python training.py tables            # writes sft.jsonl and preference.jsonl into tables
"""

import json
import sys
from pathlib import Path


def training(tables: Path, least: float = 0.5, apart: float = 0.05) -> tuple[list, list]:
    """Speeches whose side the judge believes at least at `least`; and, of the speeches that answer
    one prompt, the one that led to the highest belief over the lowest, `apart` or more."""

    def read(name: str) -> list[dict]:
        return [json.loads(line) for line in (tables / f"{name}.jsonl").read_bytes().splitlines()]

    calls = {call["call"]: call for call in read("calls") if call["reply_outcome"] == "ok"}
    key = ("row", "problem", "world", "draw")
    believed = {tuple(c[k] for k in key): c["p_side"] for c in read("cells") if c["status"] == "ok"}
    heard = {}
    for turn in read("turns"):
        p, call = believed.get(tuple(turn[k] for k in key)), calls.get(turn["call"])
        spoiled = (
            turn["cut"] or turn["spoofed_tags"] or turn["tools"] or turn["side"] != turn["world"]
        )
        if call and p is not None and not spoiled and not call["request"][1]["response_format"]:
            asked = call["request"][1]["messages"]
            prompt = [{"role": each["role"], "content": each["text"]} for each in asked]
            reply = [{"role": "assistant", "content": call["reply"]}]
            heard.setdefault(json.dumps(prompt), []).append((p, reply))
    sft, pairs = [], []
    for text, replies in heard.items():
        (low, worst), (high, best) = (f(replies, key=lambda each: each[0]) for f in (min, max))
        said = {json.dumps(reply): reply for p, reply in replies if p >= least}
        sft += [{"prompt": json.loads(text), "completion": reply} for reply in said.values()]
        if high - low >= apart and best != worst:
            pairs.append({"prompt": json.loads(text), "chosen": best, "rejected": worst})
    return sft, pairs


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name, lines in zip(("sft", "preference"), training(folder), strict=True):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        print(f"{len(lines):,} examples in {folder / name}.jsonl")
