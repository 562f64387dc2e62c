"""Generated mutants: which of two programs does what is asked? Generated from a seed.

One is right. The other has a fault planted in its syntax tree, passes the tests that everybody
sees, and fails one that nobody sees. Both are respelled without change of meaning at random places,
so that no spelling gives the fault away. The programs terminate on every input.
"""

import ast
import random
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from ..question import Problem, labelled, randomness
from .loader import Loader

VISIBLE = 3
"""Tests of each question that everybody sees."""
TRIES = 400

Input: TypeAlias = tuple[list[int], int]
Outputs: TypeAlias = list[object]

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], str]] = {
    ast.Gt: (ast.GtE, "boundary"),
    ast.GtE: (ast.Gt, "boundary"),
    ast.Lt: (ast.LtE, "boundary"),
    ast.LtE: (ast.Lt, "boundary"),
    ast.Eq: (ast.NotEq, "comparison"),
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
}
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Gt: ast.Lt,
    ast.Lt: ast.Gt,
    ast.GtE: ast.LtE,
    ast.LtE: ast.GtE,
    ast.Eq: ast.Eq,
}


@dataclass(frozen=True, slots=True)
class GeneratedMutants(Loader):
    """Questions about generated programs. Each seed makes others; `limit` sets how many there are,
    60 by default."""

    tests: int
    """How many tests nobody sees; the wrong program fails at least one of them."""

    def __post_init__(self) -> None:
        Loader.__post_init__(self)
        if not 1 <= self.tests <= 10_000:
            raise ValueError(f"tests: {self.tests} is not between 1 and 10,000")

    def load(self, root: Path = Path()) -> tuple[Problem, ...]:
        """root is not used: nothing is read."""
        return self._asked(self._made(self.limit or 60))

    def _made(self, count: int) -> Iterator[Problem]:
        for number in range(count):
            id = f"mutant-{self.seed}-{number}"
            for attempt in range(TRIES):
                chance = randomness(self.seed, id, f"program {attempt}")
                if problem := self._question(id, chance):
                    yield problem
                    break
            else:
                raise ValueError(f"tests: {self.tests} are too few to tell a fault in {id}")

    def _question(self, id: str, chance: random.Random) -> Problem | None:
        """One question; None where the fault that was drawn is seen at once, or never."""
        asked, source = _program(chance)
        right = ast.parse(source)
        inputs = [_input(chance) for _ in range(VISIBLE + self.tests)]
        gold = outputs(right, inputs)
        kind, mutant = chance.choice(list(mutants(right)))
        wrong = mutant()
        given = outputs(wrong, inputs)
        if given[:VISIBLE] != gold[:VISIBLE] or given[VISIBLE:] == gold[VISIBLE:]:
            return None
        texts = [_respelled(tree, chance) for tree in (right, wrong)]
        if texts[0] == texts[1]:
            return None
        tests = "\n".join(
            f"f({xs}, {k}) = {value}"
            for (xs, k), value in zip(inputs[:VISIBLE], gold, strict=False)
        )
        text = f"{asked}\n\nBoth programs pass these tests:\n{tests}\n\nWhich one does as asked?"
        names = [f"Program {chance.getrandbits(32):08x}" for _ in texts]
        return labelled(
            id,
            text,
            [(names[0], texts[0], 1.0), (names[1], texts[1], -1.0)],
            seed=self.seed,
            flaws=("", f"{kind}: fails a hidden test"),
        )


def outputs(tree: ast.Module, inputs: Sequence[Input]) -> Outputs:
    """What a generated program gives; the name of the exception where it raises one."""
    names: dict[str, Callable[[list[int], int], object]] = {}
    exec(compile(tree, "<generated>", "exec"), {}, names)
    found: Outputs = []
    for xs, k in inputs:
        try:
            found.append(names["f"](list(xs), k))
        except ArithmeticError as exc:
            found.append(type(exc).__name__)
    return found


def _input(chance: random.Random) -> Input:
    return [chance.randint(-9, 12) for _ in range(chance.randint(0, 7))], chance.randint(-3, 8)


def _program(chance: random.Random) -> tuple[str, str]:
    """What a program is asked to do, and the program."""
    start, step = chance.randint(-2, 5), chance.randint(2, 5)
    rest = chance.randrange(step)
    bound, far = chance.randint(-3, 4), chance.randint(5, 9)
    cases = [
        (f"the number is greater than {far}", f"x > {far}"),
        (f"the number is less than {bound}", f"x < {bound}"),
        (f"the remainder of the number by {step} is {rest}", f"x % {step} == {rest}"),
        ("the number is at least k", "x >= k"),
        ("the place of the number, counted from 0, is less than k", "i < k"),
    ]
    factor, less = chance.randint(2, 4), chance.randint(1, 6)
    deeds = [
        ("add the number", "total += x"),
        (f"add {factor} times the number", f"total += x * {factor}"),
        (f"subtract {less}", f"total -= {less}"),
        ("subtract the number less its place", "total -= x - i"),
        (f"add the larger of the number and {bound}", f"total += max(x, {bound})"),
    ]
    ends = [
        ("The result is the total.", "total"),
        (f"The result is the total, but at least {bound}.", f"max(total, {bound})"),
        ("The result is the total less k.", "total - k"),
    ]
    (if_one, one), (if_two, two) = chance.sample(cases, 2)
    (do_one, first), (do_two, second), (do_else, third) = chance.sample(deeds, 3)
    told, end = chance.choice(ends)
    asked = (
        f"f takes a list of whole numbers and a whole number k. Begin with a total of {start} and "
        f"go through the list. If {if_one}, {do_one}. Else, if {if_two}, {do_two}. Else {do_else}. "
        f"{told}"
    )
    source = (
        f"def f(xs, k):\n    total = {start}\n    for i, x in enumerate(xs):\n        if {one}:\n"
        f"            {first}\n        elif {two}:\n            {second}\n        else:\n"
        f"            {third}\n    return {end}\n"
    )
    return asked, source


def mutants(program: ast.Module) -> Iterator[tuple[str, Callable[[], ast.Module]]]:
    """The kind of every fault that the program may have, and a way to make the program with it."""

    def changed(at: int, change: Callable[[Any], None]) -> ast.Module:
        mutant = deepcopy(program)
        change(list(ast.walk(mutant))[at])
        return ast.fix_missing_locations(mutant)

    for at, node in enumerate(ast.walk(program)):
        for kind, change in _faults(node):
            yield kind, partial(changed, at, change)


def _faults(node: ast.AST) -> Iterator[tuple[str, Callable[..., None]]]:
    match node:
        case ast.Compare(ops=[op]):
            compared, kind = _COMPARED[type(op)]
            yield kind, lambda it: setattr(it, "ops", [compared()])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if other := _COMPUTED.get(type(op)):
            yield "operator", lambda it: setattr(it, "op", other())
            if isinstance(node, ast.BinOp) and isinstance(op, ast.Sub):
                yield "swapped", lambda it: it.__dict__.update(left=it.right, right=it.left)
        case ast.Constant(value=int() as value):
            for by in (-1, 1):
                yield "off by one", lambda it, by=by: setattr(it, "value", value + by)
        case ast.If(orelse=[ast.If(orelse=last)]):
            yield "dropped branch", lambda it: setattr(it, "orelse", last)


class _Respelling(ast.NodeTransformer):
    """Says the same in another way, at places that chance picks."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        mirrored = _MIRRORED.get(type(node.ops[0]))
        if mirrored is None or self._chance.random() < 0.5:
            return node
        return ast.Compare(node.comparators[0], [mirrored()], [node.left])

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, (ast.Add, ast.Mult)) and self._chance.random() < 0.5:
            return ast.BinOp(node.right, node.op, node.left)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        self.generic_visit(node)
        if self._chance.random() < 0.5:
            return node
        name = node.target
        assert isinstance(name, ast.Name)
        value = ast.BinOp(ast.Name(name.id, ast.Load()), node.op, node.value)
        return ast.Assign([ast.Name(name.id, ast.Store())], value)


def _respelled(program: ast.Module, chance: random.Random) -> str:
    changed = _Respelling(chance).visit(deepcopy(program))
    return ast.unparse(ast.fix_missing_locations(changed))
