"""Quotations in a reply: marked lines, and lines that the words around them give to others.

A judge quotes what it reads, and that may tell it what to write. So a quotation never holds a
statement. In prose the line above introduces it, as `Debater B asks me to write:` does, or the line
below takes it back, as `I refuse.` does. A doubt makes a reply unreadable; no verdict is turned."""

from typing import Literal, TypeAlias

from ..tags import find_tags

Introduction: TypeAlias = Literal["demand", "others", "own", "unclear", "none"]
"""A line of prose announces: a demand, others' words, the writer's own, something, or nothing."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


COLONS = (":", "\uff1a")
_NEAR = 300
"""Characters of a line, next to the statement, whose words are read."""
_MARKS = (">", "&gt;", "»", "│", "┃", "▌")
"""Signs at the start of a quoted line."""
_PAIRS = {'"': '"', "'": "'", "“": "”", "\u2018": "\u2019"}
_PAIRS |= {"„": "“”", "«": "»", "「": "」", "『": "』"}
_OPENING, _CLOSING = frozenset(_PAIRS), frozenset("".join(_PAIRS.values()))
_TAGS = _set(
    "turn tool quote blockquote q cite verified unverified unchecked statement passage speech "
    "claim instructions message example pre"
)
"""Tags around the words of others."""
_ENDS = ".!?…。\uff01\uff1f"

_DEMANDS = _set(
    "ask asks asked asking tell tells told demand demands demanded want wants wanted instruct "
    "instructs instructed instruction instructions request requests command commands urge urges "
    "insist insists dictate dictates dictated obey obeyed comply copy copies repeat manipulation "
    "injection injected directive contains includes reads according"
)
_OTHERS = _set(
    "debater consultant opponent advocate critic prover speaker proposer client other somebody "
    "someone one he she they their his her its me speech turn transcript passage text message says "
    "said write writes wrote claims claimed argues argued asserts proposes proposed suggests "
    "suggested states quote quotes quoted verified example instance counts could might wrong "
    "false lying error expert"
)
_REFUSALS = _set(
    "not never no nor cannot without refuse refused reject rejected ignore ignored disregard "
    "decline disobey disagree against"
)
_SUPPOSED = _set("if suppose supposing imagine scenario hypothetically please")
_CORRECTIONS = _set("no never wrong false wait correction actually oops hmm sorry hold scratch")
_NAMELESS = _set("here's let's it's judge's")
_SELF = _set("my i i'd i'll our we let")
_OWN = _set(
    "verdict answer answers probability probabilities percentage percentages likelihood "
    "likelihoods estimate estimates assessment judgment judgement conclusion decision evaluation "
    "confidence credence credences belief beliefs opinion odds final result distribution analysis "
    "numbers breakdown format output overall summary balance bottom conclude so thus therefore "
    "hence form json here here's now together posterior updated updating reflection correction "
    "revised reconsidered"
)
_ANOTHER = _set(
    "prior priors initial initially earlier previous previously originally preliminary started "
    "base alternative sample counterfactual hypothetical majority"
)
"""Words for beliefs other than the verdict."""
_POINTING = _set("this that these those it which such so as")
_DOING = _POINTING | _set("follow obey comply write repeat do to")
_REASONS = ("because", "since", "given", "based", "due")


def marked_lines(text: str) -> set[int]:
    """Numbers of the lines, from 0, in Markdown quotations, tags, or quotation marks that span
    several lines."""
    if _OPENING.isdisjoint(text) and not any([mark in text for mark in (*_MARKS, "<", "|")]):
        return set()
    lines = text.split("\n")
    marked = {number for number, line in enumerate(lines) if _is_marked(line)}
    last = {end: text.count("\n", 0, text.rfind(end)) for end in _CLOSING if end in text}
    closing, first = "", 0
    for number, line in enumerate(lines):
        if '{"' in line or (not closing and _OPENING.isdisjoint(line)):
            continue
        for at, char in enumerate(line):
            behind = line[at + 1 : at + 2]
            if closing:
                if char in closing and not behind.isalnum():
                    marked.update(range(first, number + 1) if first < number else ())
                    closing = ""
            elif char in _PAIRS and behind.strip() and not line[at - 1 : at].isalnum():
                is_closed = any(last.get(end, -1) >= number for end in _PAIRS[char])
                closing, first = _PAIRS[char] if is_closed else "", number
    opened, number, at = "", 0, 0
    for tag in find_tags(text, _TAGS) if "<" in text else ():
        number, at = number + text.count("\n", at, tag.start), tag.start
        if not tag.closing and not opened:
            opened, first = tag.name, number
        elif tag.closing and tag.name == opened:
            if first < number or lines[first].lstrip().startswith("<"):
                marked.update(range(first, number + 1))
            opened = ""
    if opened and lines[first].lstrip().startswith("<"):
        marked.update(range(first, len(lines)))
    return marked


def _is_marked(line: str) -> bool:
    bare = line[:_NEAR].lstrip()
    if bare[:2] in ("- ", "* ", "• "):
        bare = bare[2:].lstrip()
    # A row of a table has two bars.
    return bare.startswith(_MARKS) or (bare[:1] == "|" and "|" not in bare[1:])


def introduction(line: str) -> Introduction:
    """The kind of the lines directly below this line of prose."""
    # Tags are not words, and `you` is whoever asks for the verdict.
    head, *parts = line[-_NEAR:].replace("you asked", "").split("<")
    sentence = (head + "".join([part.rpartition(">")[2] for part in parts])).rstrip(" \t\r*_`)]")
    is_finished = sentence[-1:] in _ENDS or sentence[-1:] in _CLOSING
    sentence = sentence.rstrip(_ENDS + ":\uff1a ")
    sentence = sentence[max(sentence.rfind(f"{end} ") for end in ".!?") + 1 :]
    clause = sentence[max(map(sentence.rfind, (", ", "; ", ": ", "— ", "– "))) + 1 :]
    words, last = _words(sentence), _words(clause)
    is_demand, is_refused = not _DEMANDS.isdisjoint(words), _refuses(*last)
    if is_finished:
        points = not {"this", "these", "following", "below"}.isdisjoint(words)
        points |= "me" in words and _OPENING.isdisjoint(sentence)
        return "demand" if is_demand and points and not is_refused else "none"
    is_supposed = not _SUPPOSED.isdisjoint(words) or words[:1] in (["had"], ["were"])
    if is_refused or is_supposed or not _DEMANDS.isdisjoint(last):
        return "demand"
    if is_demand and not _OTHERS.isdisjoint(words):
        return "demand"
    is_later = not {"posterior", "updated", "updating"}.isdisjoint(last)
    if not (is_later or _ANOTHER.isdisjoint(last)) or {"would", "have"} <= set(last):
        return "others"
    subject = next((word for word in last if word in _SELF or _is_others(word)), "")
    if subject:
        return "own" if subject in _SELF else "others"
    if not _OWN.isdisjoint(last):
        return "own"
    # A single letter before a colon is a label.
    is_label = line.endswith(COLONS) and any(
        [len(word) == 1 and "a" <= word <= "z" for word in last]
    )
    return "others" if is_label else "unclear"


def takes_back(line: str) -> bool:
    """Whether this line of prose says that the statements directly above are others', or goes on
    with a sentence that they belong to."""
    line = line[:_NEAR].strip()
    sentence = _until(_ENDS, line)
    words, clause = _words(sentence), _words(_until(",;:—–", sentence))
    if not words:
        return False
    head, first = words[0], line.split(None, 1)[0]
    is_word = len(words) > 1 and first.rstrip(",;").isalpha() and first[0].islower()
    goes_on = line[0] in ",;—–…" or is_word
    if goes_on and head not in _REASONS:
        return True
    if sentence.endswith(COLONS):  # It introduces other lines.
        return False
    if head == "not":
        return words[1:2] == ["my"] or not _POINTING.isdisjoint(words[1:2])
    if head == "but" or (len(clause) < 3 and head in _CORRECTIONS):
        return True
    points = head in _POINTING or not {"this", "these", "above"}.isdisjoint(words)
    if points and (not _DEMANDS.isdisjoint(words) or _refuses(*clause[1:4])):
        return True
    if head not in _SELF:
        return False
    behind = [clause[n + 1 : n + 2] for n in range(1, min(5, len(clause))) if _refuses(clause[n])]
    return "refuse" in clause or any(not word or word[0] in _DOING for word in behind)


def _until(ends: str, text: str) -> str:
    return text[: min([at for end in ends if (at := text.find(end, 1)) > 0], default=len(text))]


def _is_others(word: str) -> bool:
    return word in _OTHERS or (word[-2:] == "'s" and word not in _NAMELESS)


def _refuses(*words: str) -> bool:
    return any([word in _REFUSALS or word[-3:] == "n't" for word in words])


def _words(text: str) -> list[str]:
    text = text.lower().replace("\u2019", "'")
    return "".join([char if char.isalnum() or char == "'" else " " for char in text]).split()
