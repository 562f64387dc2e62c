"""A team's quota: independent runs divide an account's limits through a table in PostgreSQL.

Shares are max-min fair by weight: a run that wants less than its part has all that it wants, and
the others divide the rest by their weights, however many calls wait in each. What a run holds
counts for it until it has given it back, or has been silent for `SHARE_TTL` seconds. Each run makes
one short transaction every quarter of a second.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any
from uuid import uuid4

from ...cache.errors import StoreError
from ..limits.limits import Limits
from ..models.router import Models

RENEWAL_INTERVAL, RETRY_INTERVAL = 0.25, 0.05
"""Seconds between two renewals; and where less was granted than is wanted."""
SHARE_TTL = 3.0
"""Seconds without a renewal after which a run's share is free for others."""
CONFIRMED_FOR = 2.0
"""Seconds after a renewal for which a run uses its share: it stops well before others take it."""
MIN_RUN_SHARE = 0.02
"""Minimum share of an idle run, so that its first call need not wait."""
_SCHEMA_LOCK = 7_265_002
"""Advisory lock under which the tables are created."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS quotas (name text PRIMARY KEY, limits text NOT NULL);
CREATE UNLOGGED TABLE IF NOT EXISTS quota_parts (
    name text, run text, weight float8, want float8, rate float8, held float8, seen timestamptz,
    PRIMARY KEY (name, run)
);
CREATE OR REPLACE FUNCTION quota_part(
    asked text, who text, weighs float8, wants float8, served float8, uses float8, stale float8,
    lowest float8, OUT given float8, OUT target float8
) LANGUAGE plpgsql AS $$
DECLARE runs int; room float8; weights float8; each record; level float8; whole float8;
    others float8;
BEGIN
    PERFORM 1 FROM quotas WHERE name = asked FOR UPDATE;  -- one run at a time
    DELETE FROM quota_parts
        WHERE name = asked AND seen < clock_timestamp() - make_interval(secs => stale);
    INSERT INTO quota_parts VALUES (asked, who, weighs, wants, served, uses, clock_timestamp())
        ON CONFLICT (name, run) DO UPDATE SET
        weight = weighs, want = wants, rate = served, held = uses, seen = clock_timestamp();
    -- What all are served now is what the account gives, wherever calls wait.
    SELECT count(*), sum(rate), sum(weight) INTO runs, room, weights
        FROM quota_parts WHERE name = asked;
    FOR each IN SELECT weight, want FROM quota_parts WHERE name = asked ORDER BY want / weight LOOP
        level := room / weights;
        EXIT WHEN each.want / each.weight >= level;
        room := room - each.want; weights := weights - each.weight; level := NULL;
    END LOOP;
    -- Nobody wants nothing at all, so that `whole` is more than 0.
    SELECT sum(least(want, greatest(weight * level, 1e-6))) INTO whole
        FROM quota_parts WHERE name = asked;
    lowest := lowest / runs;
    target := lowest
        + (1 - lowest * runs) * least(wants, greatest(weighs * level, 1e-6)) / whole;
    SELECT coalesce(sum(held), 0) INTO others FROM quota_parts WHERE name = asked AND run <> who;
    given := greatest(least(target, 1 - others), 0);
    UPDATE quota_parts SET held = greatest(given, uses) WHERE name = asked AND run = who;
END $$;
"""
_JOIN = "INSERT INTO quotas VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET name = excluded.name"
_SHARE = "SELECT * FROM quota_part(%s, %s, %s, %s, %s, %s, %s, %s)"
_LEAVE = "DELETE FROM quota_parts WHERE run = %s"
_LIST = """SELECT name, run, weight, want, held,
extract(epoch FROM clock_timestamp() - seen)::float8
FROM quota_parts ORDER BY name, run"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QuotaAccount:
    """The unit of sharing: one model at one account."""

    name: str
    """Endpoint identity, model, and the label of the account; no key."""
    limits: str
    """Limits in this run's sweep file, as text: runs that disagree are warned."""


class Quota:
    """The part of each model's limits that one run may use. All runs of a database are one team."""

    def __init__(
        self,
        url: str,
        accounts: Mapping[str, QuotaAccount],
        run: str = "",
        weight: float = 1.0,
    ) -> None:
        """accounts: by model. run: its name, as others see it. weight: of this run beside the
        others. StoreError."""
        from ...cache.database import checked_url

        self._url = checked_url(url)
        self._accounts = dict(sorted(accounts.items(), key=lambda each: each[1].name))
        self._run = f"{run or 'run'} {uuid4().hex[:8]}"
        self._weight = weight
        self._db: Any = None
        self._renewed = {model: 0.0 for model in accounts}
        """When each share was confirmed last (monotonic s)."""
        self._shares = dict.fromkeys(accounts, 0.0)

    def renew(self, needs: Mapping[str, tuple[float, float, float]]) -> bool:
        """Renew every model's share; whether each got all that it should have. Blocks for a round
        trip a model.

        needs: by model, calls a second that are wanted and that are served, and the share in use.
        """
        db = self._connection()
        satisfied = True
        # In one order everywhere, so that no two runs deadlock.
        for model, account in self._accounts.items():
            wanted, served, using = needs[model]
            asked = time.monotonic()
            given = (account.name, self._run, self._weight, wanted + 1e-3, served, using)
            ((share, target),) = db.execute(
                _SHARE, (*given, SHARE_TTL, MIN_RUN_SHARE), prepare=True
            ).fetchall()
            # From before the question: by the server's clock, others wait a little longer.
            self._shares[model], self._renewed[model] = share, asked
            satisfied = satisfied and share >= target - 1e-6
        return satisfied

    def share(self, model: str) -> float:
        """The part of a model's limits that this run may use now; 0 once nobody confirms it."""
        fresh = time.monotonic() - self._renewed[model] < CONFIRMED_FOR
        return self._shares[model] if fresh else 0.0

    def disconnect(self) -> None:
        """Drop the connection; the next renewal makes another."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def close(self) -> None:
        """Give all shares back, if the database can be reached."""
        import psycopg

        try:
            if self._db is not None:
                self._db.execute(_LEAVE, (self._run,))
        except psycopg.Error:
            log.info("the quota was not given back; it is free in %.0f s", SHARE_TTL)
        self.disconnect()

    def _connection(self) -> Any:
        from ...cache.database import connect

        if self._db is None:
            db = connect(self._url, CONFIRMED_FOR)
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
        # A slow answer must not confirm a share that others have by then.
        db.execute("SET statement_timeout = '1s'")
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            ((there,),) = db.execute("SELECT to_regclass('quota_parts')").fetchall()
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


def quota_accounts(models: Models, limits: Mapping[str, Limits]) -> dict[str, QuotaAccount]:
    """By model, the account that other runs may share. limits: of the sweep file, by model."""
    accounts = {}
    for model, each in limits.items():
        name = (models.model_identity(model), model, models.account(model))
        listed = [f"{f.name} {v:g}" for f in fields(each) if (v := getattr(each, f.name))]
        accounts[model] = QuotaAccount(" · ".join(filter(None, name)), ", ".join(listed))
    return accounts


async def renew_forever(
    quota: Quota, needs: Callable[[], Mapping[str, tuple[float, float, float]]]
) -> None:
    """Renew until cancelled. A database that cannot be reached is tried again; meanwhile the
    shares expire. StoreError where trying again is in vain.

    needs: called for each renewal; see `Quota.renew`.
    """
    import psycopg

    satisfied = True
    while True:
        try:
            satisfied = await asyncio.to_thread(quota.renew, needs())
        except (psycopg.OperationalError, psycopg.InterfaceError) as exc:
            log.warning("the quota's database: %s", " ".join(str(exc).split()))
            quota.disconnect()
        except psycopg.Error as exc:
            raise StoreError(f"the quota cannot be kept: {' '.join(str(exc).split())}") from exc
        await asyncio.sleep(RENEWAL_INTERVAL if satisfied else RETRY_INTERVAL)


def quota_shares(url: str) -> list[tuple[str, str, float, float, float, float]]:
    """All shares: (account, run, weight, demand, share, seconds since its renewal). StoreError."""
    import psycopg

    from ...cache.database import connect

    try:
        with connect(url) as db:
            return db.execute(_LIST).fetchall()
    except psycopg.errors.UndefinedTable:
        return []
    except psycopg.Error as exc:
        raise StoreError(f"{url}: {' '.join(str(exc).split())}") from exc
