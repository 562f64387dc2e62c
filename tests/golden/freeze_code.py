"""Writes the table of a version's modules (oversight.engine.sweeps.older_code) from a checkout of
it: `python -m tests.golden.freeze_code CHECKOUT`. That of version 0.1 is never made anew."""

import ast
import hashlib
import json
import lzma
import sys
from pathlib import Path

import msgspec
import yaml

from oversight.engine.sweeps.code import HOME, prompt_digests
from oversight.engine.sweeps.older_code import _NAMED, TABLE, OlderCode, OlderModule
from oversight.engine.sweeps.semantic import ModuleCode, module_code
from oversight.engine.sweeps.settled import TABLE as SETTINGS
from oversight.protocols.prompts.prompt_set import read_blocks

ROOT = Path(__file__).parents[2]


def frozen(checkout: Path) -> OlderCode:
    modules: dict[str, OlderModule] = {}
    for file in sorted((checkout / "protocols").rglob("*.py")):
        parts = ("oversight", *file.relative_to(checkout).with_suffix("").parts)
        name = ".".join(parts).removesuffix(".__init__")
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        source = file.read_bytes()
        code = module_code(source.decode(), package)
        if name == HOME:
            stub = module_code(file.with_suffix(".pyi").read_text(), package)
            code = ModuleCode(code.statements, stub.imported, code.executed)
        named = tuple(_NAMED.findall(source.decode()))
        modules[name] = OlderModule(hashlib.sha256(source).hexdigest(), named, code)
    words = yaml.safe_load((checkout / "protocols/prompts/default.yaml").read_text())
    for section in ("placeholders", "shown_as_data"):
        words.pop(section, None)
    prompts = prompt_digests(tuple(sorted(read_blocks(words).items())))
    return OlderCode(modules, dict(prompts))


def settings_of(checkout: Path) -> dict[str, list[str]]:
    """The fields of each dataclass, by its name."""
    found: dict[str, list[str]] = {}
    for file in sorted((checkout / "protocols").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                own = [
                    each.target.id
                    for each in node.body
                    if isinstance(each, ast.AnnAssign)
                    and isinstance(each.target, ast.Name)
                    and "ClassVar" not in ast.unparse(each.annotation)
                ]
                bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                found[node.name] = [*found.get(node.name, []), *own, *(f"<{b}" for b in bases)]

    def whole(name: str) -> set[str]:
        parts = found.get(name, [])
        inherited = (whole(each[1:]) for each in parts if each.startswith("<"))
        return {each for each in parts if not each.startswith("<")}.union(*inherited)

    return {name: sorted(whole(name)) for name in sorted(found) if whole(name)}


if __name__ == "__main__":
    settings = json.dumps(settings_of(Path(sys.argv[1])), indent=0)
    (ROOT / "engine" / "data" / SETTINGS).write_text(f"{settings}\n")
    packed = lzma.compress(msgspec.json.encode(frozen(Path(sys.argv[1]))), preset=9)
    (ROOT / "engine" / "data" / TABLE).write_bytes(packed)
    print(f"{len(packed):,} bytes")
