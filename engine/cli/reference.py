"""The reference of the sweep file, made from the declarations that it is checked against.

`python -m oversight.engine.cli.reference > docs/sweep-file.md`, or `make docs`;
a test holds the page against them.
"""

import ast
import inspect
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from itertools import pairwise
from typing import Any, Literal, Union, get_args, get_origin

from ...cache.call import Request
from ...protocols.agents.agent import Agent, Speaker
from ...protocols.catalogue import JUDGES, PROTOCOLS
from ...protocols.datasets.catalogue import LOADERS
from ...protocols.datasets.loader import Loader
from ...protocols.judges.judge import Judge
from ...protocols.judges.shots import Shot
from ..api.settings import RunSettings
from ..limits.limits import Limits
from ..providers.catalogue import PROVIDERS
from ..providers.provider_settings import ProviderSettings
from ..simulation.model import PRESETS, SimModel
from ..sweeps.fields import fields_of
from ..sweeps.roles import SWEEP_AXES, AgentSettings
from ..sweeps.sweepfile import Top
from ..system.flags import FLAG
from .flags import declared, flag_name

HEAD = """\
# The sweep file

*Made from the program's own declarations by `make docs`; edit those.*

A sweep file is YAML. `problems`, `judges` and `protocols` must be there, and `agents` for every
protocol but the naive judge. Wherever a single value stands in `agents`, `judges` or `protocols`, a
list of values makes an axis of the grid. What is not listed here is refused, with its line.

```yaml
name: my-sweep
problems: {bundled: arithmetic}
agents: {model: compatible/lab/llama-3, tools: [none, calculator]}
judges: {kind: stated, model: compatible/lab/llama-3}
protocols:
  naive_judge:
  debate: {rounds: 2}
providers:
  compatible/lab: {base_url: "http://127.0.0.1:8080/v1"}
models:
  compatible/lab/llama-3: {concurrency: 4}
```

`--set a.b=value` changes any setting from the command line: `--set agents.temperature=0.7`,
`--set providers.compatible/lab.base_url=http://127.0.0.1:9000/v1`.
"""

PROBLEMS = """\
Data sets by name; several may stand beside each other. A bare value stands for the one setting that
is needed: `bundled: arithmetic` is `bundled: {name: arithmetic}`, and with a limit it is
`bundled: {name: arithmetic, limit: 20}`. Paths are relative to the sweep file. `seed` is that of
the sweep unless it is set. Every data set has these settings:
"""

AGENTS = """\
Who is overseen: a mapping of settings, a list of such mappings, or the bare name of a model. Where
a protocol has a role of its own, such as the opponent of a debate, it takes the same settings.
"""

JUDGES_TEXT = """\
Who oversees: a mapping of settings, a list of such mappings, or the bare name of a model. `kind`
says how it is asked; it is `stated` unless it is set, and a list of kinds is an axis.
"""

PROTOCOLS_TEXT = """\
A mapping from kinds to settings, a list of such mappings and of bare kinds, or one kind. Each meets
every agent and every judge. What each of them does: [protocols.md](protocols.md). One of your own
is named by module or by file: [extending.md](extending.md).
"""

PROMPTS_TEXT = """\
What every seat reads: `default`, a path to a set of your own (YAML), or a mapping of single
blocks to be read instead, `{debate: {rules: "…"}}`, with an optional `set:` that they change. A
list makes an axis. `oversight plan --prompts SWEEP` prints what each seat reads; a block that
does not exist, or a placeholder that it does not know, is refused with its line. The names of
the blocks are those of `oversight plan --prompts --json`.

`{from: llm_debate, folder: PATH}` reads the words of Khan et al. 2024 from a checkout of
ucl-dark/llm_debate, and `from: solib` those of Sudhir et al. 2025 from one of SOlib; blocks beside
them are changed. Question, passage, transcript and the form of a verdict are laid out as always.
Speakers of llm_debate write a private thought and the speech in marks; the thought is kept from all
others. Both studies expect a judge who may not read the passage and agents with `quotes: true`, and
llm_debate judges that think first (`reason: public`).
"""

MODELS = """\
What is known of a model that the sweep asks, under its whole name: `PROVIDER/NAME`, with the
provider in front. A name that no role asks is refused.

For models of a provider, `is`, which model it is where its name does not say so, as that of a
deployment does not: `azure/mine: {is: openai/gpt-6-sol}`; `batch`, whether its calls go through its
vendor's batch endpoint (`true`; OpenAI and Anthropic), or do not though the flag `--batch` says so
(`false`); and limits. Where these are not set, the server's headers tell them, or a wait that it
asks for. Of any model, simulated ones too, its
`capability`, a number on whatever scale, and `capability_source`, who says so and as of when:
`oversight measure scaling` places judges and agents by it. Neither changes what is asked.
"""

SIMULATED = """\
For simulated models, whose names begin with `sim/`, how they speak and judge; presets: {presets}.
"""

PROVIDERS_TEXT = """\
How a provider is reached, under the name that stands in front of its models; all of it may be left
out. A server of your own is `compatible/NAME`, with a name of yours, and its models are
`compatible/NAME/MODEL`: see [local-models.md](local-models.md).
"""

LABELS = """\
What people see in place of the names of protocols, in tables and pictures; nothing else changes,
and rows are found by their names as before: `labels: {debate sequential 2: "Debate, in turn"}`. A
name that the report does not have is refused.
"""

RUN_TEXT = """\
What is not in the file: flags of `oversight run`, and arguments of `run` and `run_async` in Python.
A flag without a value is `True` in Python; one that is repeatable takes a tuple.
"""

ROLE_WORDS = {
    Speaker: "an agent",
    Judge: "a judge",
    Shot: "examples: data sets, as under `problems`",
}
TYPE_WORDS = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def reference() -> str:
    """The page, in Markdown."""
    return "\n".join(_parts()).rstrip() + "\n"


def _parts() -> Iterator[str]:
    yield HEAD
    yield "## At the top\n"
    yield from _table(Top)
    yield "## problems\n"
    yield PROBLEMS
    shared = [field.name for field in fields(Loader)]
    yield from _table(Loader)
    for name, loader in LOADERS.items():
        yield f"### {name}\n\n{_first_line(loader)}\n"
        yield from _table(loader, without=shared)
    yield f"## agents\n\n{AGENTS}"
    yield from _table(Agent, AgentSettings)
    yield f"## judges\n\n{JUDGES_TEXT}"
    for name, judge in JUDGES.items():
        yield f"### kind: {name}\n\n{_first_line(judge)}\n"
        yield from _table(judge)
    yield f"## protocols\n\n{PROTOCOLS_TEXT}"
    for name, protocol in PROTOCOLS.items():
        yield f"### {name}\n\n{_first_line(protocol)}\n"
        yield from _table(protocol, without=SWEEP_AXES)
    yield f"## prompts\n\n{PROMPTS_TEXT}"
    yield f"## models\n\n{MODELS}"
    yield from _table(Limits)
    yield SIMULATED.format(presets=", ".join(f"`{name}`" for name in PRESETS))
    yield from _table(SimModel)
    yield f"## providers\n\n{PROVIDERS_TEXT}"
    yield from _table(ProviderSettings)
    yield "| provider | where it is, unless `base_url` or the variable says | address | key |"
    yield "|---|---|---|---|"
    for name, entry in PROVIDERS.items():
        own = name == "compatible"
        address = "COMPATIBLE_NAME_BASE_URL" if own else entry.base_url_variable
        key = "COMPATIBLE_NAME_API_KEY" if own else entry.key_variable
        called = "compatible/NAME" if own else name
        yield f"| {called} | {entry.base_url or '–'} | {_code(address)} | {_code(key)} |"
    yield f"\n## labels\n\n{LABELS}"
    yield f"## How a sweep is run\n\n{RUN_TEXT}"
    yield "| flag | in Python | default | what it is |"
    yield "|---|---|---|---|"
    for field in declared(RunSettings):
        flag = field.metadata[FLAG]
        metavar = f" {flag.metavar}" if flag.metavar else ""
        typed = f"{flag_name(field.name, flag)}{metavar}".replace("|", "\\|")
        default = _value(field.default) if field.default is not None else "–"
        yield f"| `{typed}` | `{field.name}` | {default} | {flag.help} |"


def _table(*classes: type[Any], without: Iterable[str] = ()) -> Iterator[str]:
    rows = [
        (f"`{field.name}`", _type(types_[field.name]), _default(cls, field), _doc(cls, field))
        for cls in classes
        for types_ in [fields_of(cls)]
        for field in fields(cls)
        if field.init and field.name not in without
    ]
    if rows:
        yield "| setting | takes | default | what it is |"
        yield "|---|---|---|---|"
        yield from (f"| {' | '.join(row)} |" for row in rows)
        yield ""


def _type(type_: Any) -> str:
    origin, parts = get_origin(type_), get_args(type_)
    if origin is Literal:
        return ", ".join(_value(part) for part in parts)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(part) for part in parts)
    if type_ is types.NoneType:
        return "`null`"
    if origin is tuple:
        inner = _type(parts[0])
        return {"a judge": "several judges"}.get(inner, inner if parts[0] is Shot else f"{inner}s")
    for role, words in ROLE_WORDS.items():
        if isinstance(type_, type) and issubclass(type_, role):
            return words
    return TYPE_WORDS[type_]


def _default(cls: type[Any], field: "Field[Any]") -> str:
    if field.default is MISSING:
        return "that of the file" if cls is Top else "*needed*"
    return _value(field.default)


def _value(value: Any) -> str:
    match value:
        case None:
            return "`null`"
        case bool():
            return f"`{str(value).lower()}`"
        case "" | ():
            return "none"
        case tuple():
            return ", ".join(map(_value, value))
        case str() | int():
            return f"`{value}`"
        case float():
            return f"`{value:g}`"
    return f"`{getattr(value, 'name', value)}`"


def _doc(cls: type[Any], field: "Field[Any]") -> str:
    """What stands below the field where it is declared, or else below its namesake of a call."""
    for each in (*cls.__mro__, Request):
        if told := _docs(each).get(field.name):
            return " ".join(told.split()).replace("|", "\\|")
    return "`PROVIDER/NAME`, or a simulated `sim/NAME`." if field.name == "model" else ""


@cache
def _docs(cls: type[Any]) -> Mapping[str, str]:
    """The text below each field of a class itself."""
    if cls.__module__ in ("builtins", "abc"):
        return {}
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef))
    found = {}
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found[field.target.id] = text
    return found


def _first_line(cls: type[Any]) -> str:
    return (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ")


def _code(name: str) -> str:
    return f"`{name}`" if name else "–"


if __name__ == "__main__":
    sys.stdout.write(reference())
