"""The five tables of a run: their columns, in order, and what is in each column."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from ....protocols.scores import SCORES
from ..scoring.worlds import BETAS, beta_name

Kind: TypeAlias = Literal["text", "word", "int", "float", "flag", "floats", "time", "json"]
"""Type of a column: `text` is free text, `word` has few values, `json` is JSON in a text."""

Columns: TypeAlias = Mapping[str, Kind]

KEY: Columns = {"row": "int", "problem": "word", "world": "word", "draw": "int"}

AXES: Columns = {
    "protocol": "word",
    "agent": "word",
    "judge": "word",
    "model": "word",
    "judge_model": "word",
    "rounds": "int",
    "simultaneous": "flag",
    "best_of": "int",
    "temperature": "float",
    "seed": "int",
}
"""What rows differ in. Empty where a protocol has no such setting."""

SPENT: Columns = {
    "tokens_in": "int",
    "tokens_out": "int",
    "tokens_cached": "int",
    "dollars": "float",
}

TABLES: Mapping[str, Columns] = MappingProxyType(
    {
        "rows": {
            "row": "int",
            **AXES,
            "settings": "json",
            "n": "int",
            "cells": "int",
            "failed": "int",
            "missing": "int",
            **{
                f"{m}{part}": "float"
                for m in ("accuracy", "asd", "lift")
                for part in ("", "_low", "_high")
            },
            "asd_std": "float",
            "bounds_low": "float",
            "bounds_high": "float",
            **{f"{m}_{beta_name(b)}": "float" for m in ("jse", "eas") for b in BETAS},
            "chose_right": "float",
            "captured": "float",
        },
        "cells": {
            **KEY,
            "run": "word",
            **AXES,
            "group": "word",
            "value": "float",
            "best": "flag",
            "cell": "text",
            "status": "word",
            "failure": "word",
            "message": "text",
            "probs": "floats",
            "p_side": "float",
            "p_best": "float",
            **dict.fromkeys(SCORES, "float"),
            "captured": "float",
            "measures": "json",
            "counts": "json",
            "calls": "int",
            **SPENT,
        },
        "turns": {
            **KEY,
            "turn": "int",
            "speaker": "word",
            "side": "word",
            "text": "text",
            "call": "text",
            "outcome": "word",
            "cut": "flag",
            "conceded": "flag",
            "forged": "int",
            "retries": "int",
            "check": "word",
            "words": "int",
            "tools": "json",
            "quotes": "json",
        },
        "judgements": {
            **KEY,
            "judgement": "int",
            "probs": "floats",
            "captured": "float",
            "text": "text",
            "call": "text",
        },
        "calls": {
            "call": "text",
            "key": "text",
            "model": "word",
            "served_model": "word",
            "outcome": "word",
            "request": "json",
            "reply": "text",
            "reasoning": "text",
            "paid_at": "time",
            **SPENT,
        },
    }
)
"""The columns of each table, in order."""

FROM_OUTCOMES = ("rows", "cells")
"""Tables that need no store; without one the cells have no calls, tokens and dollars."""
