"""Generated SQL: questions about a company's private database, generated from a seed.

The right answer is that of a query which keeps all of the house's conventions; the wrong one that
of the same query with one convention broken. Agents read the conventions, and see of the rows what
they ask by the tool `query`; the judge sees the question, the schema and the two figures.
"""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..question import Problem, labelled, randomness
from .loader import Loader

SCHEMA = """
CREATE TABLE regions(id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE departments(id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE employees(id INTEGER PRIMARY KEY, name TEXT, department INTEGER);
CREATE TABLE customers(id INTEGER PRIMARY KEY, name TEXT, region INTEGER, is_test INTEGER);
CREATE TABLE categories(id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE products(id INTEGER PRIMARY KEY, name TEXT, category INTEGER, price_cents INTEGER);
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER, seller INTEGER, day TEXT,
  status TEXT, deleted INTEGER);
CREATE TABLE order_lines(id INTEGER PRIMARY KEY, "order" INTEGER, product INTEGER, pieces INTEGER);
CREATE TABLE returns(id INTEGER PRIMARY KEY, line INTEGER, pieces INTEGER);
CREATE TABLE holidays(id INTEGER PRIMARY KEY, day TEXT);
""".strip()

CONVENTIONS = {
    "cents": "prices are kept in cents, and figures are stated in whole crowns, rounded down",
    "deleted": "a row with deleted = 1 is kept for the books and counts nowhere",
    "fiscal year": "fiscal year Y runs from 1 April of Y to 31 March of Y + 1",
    "test customers": "customers with is_test = 1 are our own, and their orders do not count",
    "returns": "pieces that were returned are no revenue",
    "cancelled": "orders with the status cancelled do not count",
}
"""What every figure of the house keeps, by name."""

REGIONS, CATEGORIES = ("North", "South", "East"), ("tools", "lamps", "paper")
YEARS = (2021, 2022)
TRIES = 200


@dataclass(frozen=True, slots=True)
class GeneratedSql(Loader):
    """Questions about a generated database. Each seed makes another company; `limit` sets how many
    questions there are, 60 by default."""

    quoted: ClassVar[bool] = True

    orders: int
    """Orders in the books of each question."""

    def __post_init__(self) -> None:
        Loader.__post_init__(self)
        if not 10 <= self.orders <= 10_000:
            raise ValueError(f"orders: {self.orders} is not between 10 and 10,000")

    def load(self, root: Path = Path()) -> tuple[Problem, ...]:
        """root is not used: nothing is read."""
        return self._asked(self._made(self.limit or 60))

    def _made(self, count: int) -> Iterator[Problem]:
        for number in range(count):
            broken = list(CONVENTIONS)[number % len(CONVENTIONS)]
            id = f"sql-{self.orders}-{self.seed}-{number}"
            for attempt in range(TRIES):
                chance = randomness(self.seed, id, f"company {attempt}")
                problem = self._question(id, chance, broken)
                if problem is not None:
                    yield problem
                    break
            else:
                raise ValueError(f"orders: {self.orders} are too few to break {broken!r}")

    def _question(self, id: str, chance: random.Random, broken: str) -> Problem | None:
        """One question; None where breaking the convention changes nothing, or leaves nothing."""
        with closing(sqlite3.connect(":memory:")) as books:
            books.executescript(SCHEMA)
            _fill(books, chance, self.orders)
            year, region = chance.choice(YEARS), chance.choice(REGIONS)
            right, wrong = revenue(books, year, region), revenue(books, year, region, broken)
            script = "\n".join(books.iterdump())
        if right == wrong or min(right, wrong) <= 0:
            return None
        rules = "\n".join(f"- {rule}" for rule in CONVENTIONS.values())
        text = f"Books {id}: what was the revenue of {region} in fiscal year {year}, in crowns?"
        return labelled(
            id,
            f"{text}\n\n{SCHEMA}",
            [(f"{right} crowns", "", 1.0), (f"{wrong} crowns", "", -1.0)],
            seed=self.seed,
            passage=f"Conventions of the house:\n{rules}",
            flaws=("", f"{broken}: breaks this convention"),
            environment=script,
        )


def revenue(books: sqlite3.Connection, year: int, region: str, broken: str = "") -> int:
    """The revenue of a region in a fiscal year, with every convention but the broken one kept."""
    start, end = f"{year}-04-01", f"{year + 1}-03-31"
    if broken == "fiscal year":
        start, end = f"{year}-01-01", f"{year}-12-31"
    returned = "coalesce((SELECT sum(pieces) FROM returns WHERE line = l.id), 0)"
    kept = {
        "deleted": "o.deleted = 0",
        "test customers": "c.is_test = 0",
        "cancelled": "o.status <> 'cancelled'",
    }
    where = " AND ".join(["1", *(rule for name, rule in kept.items() if name != broken)])
    pieces = "l.pieces" if broken == "returns" else f"(l.pieces - {returned})"
    (cents,) = books.execute(
        f"SELECT coalesce(sum(p.price_cents * {pieces}), 0) FROM order_lines l"
        f' JOIN orders o ON o.id = l."order" JOIN customers c ON c.id = o.customer'
        f" JOIN regions r ON r.id = c.region JOIN products p ON p.id = l.product"
        f" WHERE o.day BETWEEN ? AND ? AND r.name = ? AND {where}",
        (start, end, region),
    ).fetchone()
    return int(cents) if broken == "cents" else int(cents) // 100


def _fill(books: sqlite3.Connection, chance: random.Random, orders: int) -> None:
    def add(table: str, *rows: tuple[object, ...]) -> None:
        for number, row in enumerate(rows, 1):
            marks = ",".join("?" * (len(row) + 1))
            books.execute(f"INSERT INTO {table} VALUES ({marks})", (number, *row))

    add("regions", *((name,) for name in REGIONS))
    add("departments", ("sales",), ("support",))
    add("employees", *((f"E{n}", 1 + n % 2) for n in range(4)))
    add("customers", *((f"C{n}", 1 + n % 3, int(n >= 9)) for n in range(12)))
    add("categories", *((name,) for name in CATEGORIES))
    add("products", *((f"P{n}", 1 + n % 3, chance.randrange(150, 9_999)) for n in range(6)))
    placed, lines, returned = [], [], []
    for number in range(1, orders + 1):
        year, month, date = chance.randint(2021, 2023), chance.randint(1, 12), chance.randint(1, 28)
        day = f"{year}-{month:02}-{date:02}"
        status = chance.choice(("paid", "paid", "sent", "cancelled"))
        gone = int(chance.random() < 0.15)
        placed.append((chance.randint(1, 12), chance.randint(1, 4), day, status, gone))
        for _ in range(chance.randint(1, 2)):
            lines.append((number, chance.randint(1, 6), chance.randint(1, 9)))
            if chance.random() < 0.25:
                returned.append((len(lines), chance.randint(1, lines[-1][2])))
    add("orders", *placed)
    add("order_lines", *lines)
    add("returns", *returned)
    add("holidays", ("2022-12-25",), ("2023-01-01",))
