"""Data sets: loaders, the problems that come with the program, and the leak gate."""

from protocols.datasets.bundled import BUNDLED, Bundled, bundled
from protocols.datasets.catalogue import LOADERS, loader
from protocols.datasets.choices import Gpqa, TruthfulQa
from protocols.datasets.gsm8k import Gsm8k, gsm8k
from protocols.datasets.jsonl import JsonLines, write_jsonl
from protocols.datasets.leak import LeakGate, RuleAccuracy, leak_gate
from protocols.datasets.loader import Loader
from protocols.datasets.mmlu import Mmlu
from protocols.datasets.passages import BoolQ, Quality
from protocols.datasets.prontoqa import ProntoQa
from protocols.datasets.solib import Solib

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
