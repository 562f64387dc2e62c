"""Data sets: loaders, the problems that come with the program, and the leak gate."""

from oversight.protocols.datasets.bundled import BUNDLED, Bundled, bundled
from oversight.protocols.datasets.catalogue import LOADERS, loader
from oversight.protocols.datasets.choices import Gpqa, TruthfulQa
from oversight.protocols.datasets.gsm8k import Gsm8k, gsm8k
from oversight.protocols.datasets.jsonl import JsonLines, write_jsonl
from oversight.protocols.datasets.leak import LeakGate, RuleAccuracy, leak_gate
from oversight.protocols.datasets.loader import Loader
from oversight.protocols.datasets.mmlu import Mmlu
from oversight.protocols.datasets.passages import BoolQ, Quality
from oversight.protocols.datasets.prontoqa import ProntoQa
from oversight.protocols.datasets.solib import Solib

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
    "TruthfulQa",
    "bundled",
    "gsm8k",
    "leak_gate",
    "loader",
    "write_jsonl",
]
