"""Data sets: loaders, the problems that come with the program, and the leakage check."""

from .bundled import BUNDLED, Bundled, bundled
from .catalogue import LOADERS, loader
from .choices import Gpqa, TruthfulQa
from .company_sql import GeneratedSql
from .gsm8k import Gsm8k, gsm8k
from .hidden_bits import HiddenBits
from .jsonl import JsonLines, write_jsonl
from .leak import LeakageCheck, RuleAccuracy, leakage_check
from .loader import Loader
from .mmlu import Mmlu
from .mutants import GeneratedMutants
from .passages import BoolQ, Quality
from .prontoqa import ProntoQa
from .solib import Solib
from .study import Study

__all__ = [
    "BUNDLED",
    "LOADERS",
    "BoolQ",
    "Bundled",
    "GeneratedMutants",
    "GeneratedSql",
    "Gpqa",
    "Gsm8k",
    "HiddenBits",
    "JsonLines",
    "LeakageCheck",
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
    "leakage_check",
    "loader",
    "write_jsonl",
]
