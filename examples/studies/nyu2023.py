"""Michael et al. (2023), Debate Helps Supervise Unreliable Experts, arXiv:2311.08702.

    git clone --branch 2023-nyu-experiments https://github.com/julianmichael/debate
    python examples/studies/nyu2023.py debate/pub studies/nyu2023

Reads the folder `pub/` of the authors' repository (one file a room in `debates/official/`, and
`debates-metadata.jsonl`), or the same rooms repacked (`transcripts.jsonl.xz`, `metadata.jsonl.xz`,
`stories.jsonl.xz`).
"""

import hashlib
import lzma
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from draft import Attribution, Draft, run

from oversight.engine.errors import UsageError
from oversight.protocols.datasets.study import SourceRow
from oversight.protocols.question import LABELS

ABOUT = Attribution(
    "nyu2023",
    "arXiv:2311.08702",
    "https://github.com/julianmichael/debate/tree/2023-nyu-experiments/pub",
    "CC BY 4.0",
    "Michael, Mahdi, Rein, Petty, Dirani, Padmakumar and Bowman (2023), Debate Helps Supervise "
    "Unreliable Experts; stories and questions from QuALITY (Pang et al. 2022, CC BY 4.0) and "
    "Project Gutenberg (public domain).",
)
SPEECHES = ("SimultaneousSpeeches", "SequentialSpeeches")

_CLOSING = {".", ",", ";", ":", "!", "?", ")", "]", "}", "%", "'s", "n't", "'re", "'ll", "'ve"}
_CLOSING |= {"'m", "'d", "\n", "''"}
_OPENING = {"(", "[", "{", "$", "\n", "``"}
_ESCAPED = {"-LSB-": "[", "-RSB-": "]", "-LRB-": "(", "-RRB-": ")", "``": '"', "''": '"'}


def read_nyu(files: Sequence[Path], draft: Draft) -> None:
    """Read every room. UsageError for a folder that holds neither form."""
    (folder,) = files if len(files) == 1 else (Path(),)
    packed = folder / "transcripts.jsonl.xz"
    if packed.exists():
        rooms = _unpacked(packed, draft)
        metadata = _unpacked(folder / "metadata.jsonl.xz", draft)
        stories = {story["id"]: story for story in _unpacked(folder / "stories.jsonl.xz", draft)}
    elif (folder / "debates/official").is_dir():
        rooms = (
            orjson.loads(draft.read(file)) | {"name": file.stem}
            for file in sorted((folder / "debates/official").glob("*.json"))
        )
        metadata = map(orjson.loads, draft.read(folder / "debates-metadata.jsonl").splitlines())
        stories = {}
    else:
        raise UsageError(
            f"{', '.join(map(str, files))}: name one folder: the authors' pub/, which has "
            "debates/official, or one with transcripts.jsonl.xz"
        )
    about = {each["name"]: each for each in metadata}
    tokens = _Tokens(stories, draft)
    for room in rooms:
        if room["name"] not in about:
            draft.left_out["a room without metadata"] += 1
            continue
        _room(room, about[room["name"]], tokens, draft)


def _unpacked(file: Path, draft: Draft) -> Iterator[dict[str, Any]]:
    return map(orjson.loads, lzma.decompress(draft.read(file)).splitlines())


class _Tokens:
    """Source texts as they are read, with the place of each token."""

    def __init__(self, stories: Mapping[str, Mapping[str, Any]], draft: Draft) -> None:
        self._stories, self._draft = stories, draft
        self._places: dict[str, list[tuple[int, int]]] = {}

    def of(self, room: Mapping[str, Any]) -> tuple[str, str]:
        """Ids of the source text of a room, and of its article. Four articles occur in two
        tokenisations, whose places differ."""
        if "storyId" in room:
            story = self._stories[room["storyId"]]
        else:
            story = next(iter(room["setup"]["sourceMaterial"].values()))
        contents: list[str] = story["contents"]
        digest = hashlib.sha256("\n".join(contents).encode()).hexdigest()[:8]
        article = str(story.get("articleId", story["title"]))
        id = f"{article}-{digest}"
        if id not in self._places:
            text, self._places[id] = _laid_out(contents)
            self._draft.sources[id] = SourceRow(id=id, text=text, title=story["title"])
        return id, article

    def quote(self, id: str, span: Sequence[int]) -> dict[str, Any]:
        places = self._places[id]
        # One span of the data ends behind the text.
        first, end = places[span[0]][0], places[min(span[1], len(places)) - 1][1]
        return {"text": self._draft.sources[id].text[first:end], "at": [first, end]}


def _laid_out(tokens: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """The tokens as a text, and the place of each in it."""
    parts: list[str] = []
    places, length, before = [], 0, "\n"
    for token in tokens:
        if before not in _OPENING and token not in _CLOSING:
            parts.append(" ")
            length += 1
        shown = _ESCAPED.get(token, token)
        parts.append(shown)
        places.append((length, length + len(shown)))
        length, before = length + len(shown), token
    return "".join(parts), places


def _room(room: Mapping[str, Any], about: Mapping[str, Any], tokens: _Tokens, draft: Draft) -> None:
    setup, roles = room["setup"], room["setup"]["roles"]
    source, article = tokens.of(room)
    right = setup["correctAnswerIndex"]
    values = [(answer, 1.0 if n == right else -1.0) for n, answer in enumerate(setup["answers"])]
    problem, order = draft.problem(setup["question"], values, article)
    seats = {seat: label for label in LABELS[:2] if (seat := f"Debater {label}") in roles}
    debate = about["setting"]["isDebate"]
    debaters = "human" if about["setting"]["isHuman"] else "AI"
    said = _Said(room["name"], tokens, source)
    for part in room["rounds"]:
        said.add(part)
    included = about["includedInPaper"]
    draft.held(
        {
            "id": room["name"],
            "problem": problem,
            "setting": f"{debaters} {'debate' if debate else 'consultancy'}",
            "order": order,
            "argued": None if debate else next(iter(seats.values()), None),
            "source": source,
            "turns": said.turns,
            "speakers": roles,
            "included": included,
            "why": "" if included else "not in the paper's figures",
        }
    )
    # Without its last belief, a live judgement was never finished.
    if said.live and said.ended:
        draft.judged(
            {
                "conversation": room["name"],
                "judge": roles["Judge"],
                "mode": "live",
                "beliefs": said.live,
                "included": included,
                "why": "" if included else "not in the paper's figures",
            }
        )
    elif said.live:
        draft.left_out["a live judgement that was not finished"] += 1
    for judge, mode, beliefs in said.offline:
        draft.judged(
            {
                "conversation": room["name"],
                "judge": judge,
                "mode": mode,
                "beliefs": beliefs,
                "included": False,
                "why": "judged afterwards: not in the paper's figures",
            }
        )


class _Said:
    """The turns and beliefs of a room, round by round."""

    def __init__(self, room: str, tokens: _Tokens, source: str) -> None:
        self.turns: list[dict[str, Any]] = []
        self.live: list[dict[str, Any]] = []
        self.offline: list[tuple[str, str, list[dict[str, Any]]]] = []
        self.ended = False
        self._round = 0
        self._room, self._tokens, self._source = room, tokens, source

    def add(self, part: Mapping[str, Any]) -> None:
        (kind, held), *_ = part.items()
        if kind == "JudgeFeedback":
            self._turn("Judge", None, held["feedback"])
            if held["distribution"] is not None:
                self.live.append(self._belief(self._round, held))
                self.ended = self.ended or held["endDebate"]
        elif kind in SPEECHES:
            self._round += 1
            for number, speech in sorted(held["speeches"].items()):
                label = LABELS[int(number)]
                self._turn(f"Debater {label}", label, speech)
        elif kind == "OfflineJudgments":
            for judge, its in held["judgments"].items():
                steps = its["judgments"]
                # A timed judge saw all at once; a stepped one, round by round from before them.
                first = self._round if its["mode"] == "timed" else 0
                beliefs = [
                    self._belief(min(first + n, self._round), step)
                    for n, step in enumerate(steps)
                    if step["distribution"] is not None
                ]
                if beliefs:
                    self.offline.append((judge, its["mode"], beliefs))

    def _belief(self, round: int, held: Mapping[str, Any]) -> dict[str, Any]:
        said = held["feedback"]
        text, _ = self._text(said["content"])
        return {
            "round": round,
            "probs": held["distribution"],
            "text": text,
            "at": said["timestamp"],
        }

    def _turn(self, speaker: str, side: str | None, said: Mapping[str, Any]) -> None:
        text, quotes = self._text(said["content"])
        if text:
            self.turns.append(
                {
                    "round": self._round,
                    "speaker": speaker,
                    "side": side,
                    "text": text,
                    "quotes": quotes,
                    "at": said["timestamp"],
                }
            )

    def _text(self, content: Sequence[Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
        parts, quotes = [], []
        for each in content:
            if "Quote" in each:
                quote = self._tokens.quote(self._source, each["Quote"]["span"])
                quotes.append(quote)
                parts.append(f"<quote>{quote['text']}</quote>")
            else:
                parts.append(each["Text"]["text"])
        return " ".join(part.strip() for part in parts if part.strip()), quotes


if __name__ == "__main__":
    run(ABOUT, read_nyu)
