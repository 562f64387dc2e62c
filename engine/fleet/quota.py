"""One quota for a team: runs that know nothing of each other divide an account's limits in a table.

The rule is the governor's: in proportion to who waits; what one holds counts for it until it has
given it back, or has been silent for `SHARE_TTL` seconds. One short transaction a quarter second.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from oversight.cache.errors import StoreError

RENEWAL_INTERVAL, RETRY_INTERVAL = 0.25, 0.05
"""Seconds between two looks; and until the next one where less was given than is wanted."""
SHARE_TTL = 3.0
"""Seconds without a word after which what a run held is free for others."""
CONFIRMED_FOR = 2.0
"""Seconds without an answer after which a run uses nothing any more: well before others take it."""
FLOOR = 0.02
"""The share of a run that asks for nothing, so that its first call need not wait."""
_SCHEMA_LOCK = 7_265_002
"""The lock of whoever makes the tables."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS quotas (name text PRIMARY KEY, limits text NOT NULL);
CREATE UNLOGGED TABLE IF NOT EXISTS quota_shares (
    name text, run text, want float8, held float8, seen timestamptz, PRIMARY KEY (name, run)
);
CREATE OR REPLACE FUNCTION quota_share(
    asked text, who text, wants float8, uses float8, stale float8, lowest float8,
    OUT given float8, OUT target float8
) LANGUAGE plpgsql AS $$
DECLARE runs int; whole float8; others float8;
BEGIN
    PERFORM 1 FROM quotas WHERE name = asked FOR UPDATE;  -- one run at a time
    DELETE FROM quota_shares
        WHERE name = asked AND seen < clock_timestamp() - make_interval(secs => stale);
    INSERT INTO quota_shares VALUES (asked, who, wants, uses, clock_timestamp())
        ON CONFLICT (name, run) DO UPDATE
        SET want = wants, held = uses, seen = clock_timestamp();
    SELECT count(*), sum(want) INTO runs, whole FROM quota_shares WHERE name = asked;
    lowest := lowest / runs;
    -- Nobody wants nothing at all, so that `whole` is more than 0.
    target := lowest + (1 - lowest * runs) * wants / whole;
    SELECT coalesce(sum(held), 0) INTO others FROM quota_shares WHERE name = asked AND run <> who;
    given := greatest(least(target, 1 - others), 0);
    UPDATE quota_shares SET held = greatest(given, uses) WHERE name = asked AND run = who;
END $$;
"""
_JOIN = "INSERT INTO quotas VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET name = excluded.name"
_SHARE = "SELECT * FROM quota_share(%s, %s, %s, %s, %s, %s)"
_LEAVE = "DELETE FROM quota_shares WHERE run = %s"
_LIST = """SELECT name, run, want, held, extract(epoch FROM clock_timestamp() - seen)::float8
FROM quota_shares ORDER BY name, run"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QuotaAccount:
    """What is shared: one model at one account."""

    name: str
    """The endpoint's identity, the model, and a label of the account. No key is in it."""
    limits: str
    """As this run's sweep file has them, for people: runs that disagree are warned."""


class Quota:
    """The part of each model's limits that one run may use. All of a database's are one team."""

    def __init__(self, url: str, accounts: Mapping[str, QuotaAccount], run: str = "") -> None:
        """accounts: by model. run: what others see of it. StoreError."""
        from oversight.cache.postgres import checked_url

        self._url = checked_url(url)
        self._accounts = dict(sorted(accounts.items(), key=lambda each: each[1].name))
        self._run = f"{run or 'run'} {uuid4().hex[:8]}"
        self._db: Any = None
        self._answered = {model: 0.0 for model in accounts}
        """When each share was told last (monotonic s)."""
        self._shares = dict.fromkeys(accounts, 0.0)

    def look(self, needs: Mapping[str, tuple[float, float]]) -> bool:
        """Ask once for every model; whether all that is wanted was given. Blocks for a round trip.

        needs: (wanted, the share that is in use) by model.
        """
        db = self._connection()
        content = True
        # In one order everywhere, so that no two runs wait for each other.
        for model, account in self._accounts.items():
            wanted, using = needs[model]
            asked = time.monotonic()
            given = (account.name, self._run, wanted + 1e-3, using, SHARE_TTL, FLOOR)
            ((share, target),) = db.execute(_SHARE, given, prepare=True).fetchall()
            # By the clock of before the question: by the server's, others wait a little longer.
            self._shares[model], self._answered[model] = share, asked
            content = content and share >= target - 1e-6
        return content

    def share(self, model: str) -> float:
        """The part of a model's limits that this run may use now; 0 once nobody confirms it."""
        fresh = time.monotonic() - self._answered[model] < CONFIRMED_FOR
        return self._shares[model] if fresh else 0.0

    def lose(self) -> None:
        """Forget a connection that failed."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def close(self) -> None:
        """Give all shares back, if the database can be told."""
        import psycopg

        try:
            if self._db is not None:
                self._db.execute(_LEAVE, (self._run,))
        except psycopg.Error:
            log.info("the quota was not given back; it is free in %.0f s", SHARE_TTL)
        self.lose()

    def _connection(self) -> Any:
        import psycopg

        if self._db is None:
            db = psycopg.connect(self._url, autocommit=True, connect_timeout=2)
            try:
                self._prepare(db)
            except BaseException:
                db.close()
                raise
            self._db = db
        return self._db

    def _prepare(self, db: Any) -> None:
        # A share is for seconds: a power failure may forget it.
        db.execute("SET synchronous_commit = off")
        # A database that does not answer must be no reason to use a share that others have by then.
        db.execute("SET statement_timeout = '1s'")
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            ((there,),) = db.execute("SELECT to_regclass('quota_shares')").fetchall()
            if there is None:
                db.execute(_SCHEMA)
        for account in self._accounts.values():
            db.execute(_JOIN, (account.name, account.limits))
            ((known,),) = db.execute(
                "SELECT limits FROM quotas WHERE name = %s", (account.name,)
            ).fetchall()
            if known != account.limits:
                log.warning(
                    "%s: the limits of this sweep (%s) are not those of the run that was here "
                    "first (%s); each run keeps its share of its own",
                    account.name,
                    account.limits or "none",
                    known or "none",
                )


async def renew_forever(
    quota: Quota, needs: Callable[[], Mapping[str, tuple[float, float]]]
) -> None:
    """Look again and again, until this is cancelled. A database that cannot be reached is tried
    again; meanwhile the shares end by themselves. StoreError where trying again is in vain.

    needs: what each look asks for; see `Quota.look`.
    """
    import psycopg

    content = True
    while True:
        try:
            content = await asyncio.to_thread(quota.look, needs())
        except (psycopg.OperationalError, psycopg.InterfaceError) as exc:
            log.warning("the quota's database: %s", " ".join(str(exc).split()))
            quota.lose()
        except psycopg.Error as exc:
            raise StoreError(f"the quota cannot be kept: {' '.join(str(exc).split())}") from exc
        await asyncio.sleep(RENEWAL_INTERVAL if content else RETRY_INTERVAL)


def quota_shares(url: str) -> list[tuple[str, str, float, float, float]]:
    """Who holds what: (name, run, wanted, share, seconds since it was heard of). StoreError."""
    import psycopg

    from oversight.cache.postgres import checked_url

    try:
        with psycopg.connect(checked_url(url), autocommit=True, connect_timeout=5) as db:
            return db.execute(_LIST).fetchall()
    except psycopg.errors.UndefinedTable:
        return []
    except psycopg.Error as exc:
        raise StoreError(f"{url}: {' '.join(str(exc).split())}") from exc
