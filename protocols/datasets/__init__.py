"""Data sets: loaders, the problems that come with the program, and the leak gate."""

from .bundled import BUNDLED, Bundled, bundled
from .catalogue import LOADERS, loader
from .choices import Gpqa, TruthfulQa
from .gsm8k import Gsm8k, gsm8k
from .jsonl import JsonLines, write_jsonl
from .leak import LeakGate, RuleAccuracy, leak_gate
from .loader import Loader
from .mmlu import Mmlu
from .passages import BoolQ, Quality
from .prontoqa import ProntoQa
from .solib import Solib
from .study import Study

__all__ = [
    "BUNDLED",
    "LOADERS",
    "BoolQ",
    "Bundled",
    "Gpqa",
    "Gsm8k",
    "JsonLines",
    "LeakGate",
    "Loader",
    "Mmlu",
    "ProntoQa",
    "Quality",
    "RuleAccuracy",
    "Solib",
    "Study",
    "TruthfulQa",
    "bundled",
    "gsm8k",
    "leak_gate",
    "loader",
    "write_jsonl",
]
