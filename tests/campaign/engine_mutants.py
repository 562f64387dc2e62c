"""Plausible faults of the engine and of the cache: each is one edit, as a slip would be.

Every mutant must die. A fault in a process that a test starts is not seen: tests are named here
that run what they are about themselves.
"""

from tests.campaign.mutants import Mutant, below


def _of(file: str, tests: str, *edits: tuple[str, str]) -> list[Mutant]:
    named = tuple(below(*each.split("/")) for each in tests.split())
    return [Mutant(file, old, new, named) for old, new in edits]


ENGINE_MUTANTS: tuple[Mutant, ...] = (
    *_of(
        "cache/address.py",
        "cache/address",
        ("return address + endpoint_tag(identity)", "return address"),
        ('return {"is": type(value).__name__} | inner', "return inner"),
        ("if not math.isfinite(value):", "if math.isnan(value):"),
        (
            "int(value) if value.is_integer() and abs(value) < MAX_EXACT_INTEGER else value",
            "value",
        ),
    ),
    *_of(
        "cache/cache.py",
        "cache/cached cache/replay cache/census",
        ("        flight = self._flights.get(key)\n", "        flight = None\n"),
        (
            "return key in self._refreshed or self._was_refreshed(key)",
            "return key in self._refreshed",
        ),
        ("return fresh", "return False"),
        ("self._recent.popitem(last=False)", "self._recent.popitem()"),
        ('replaces=mode == "refresh"', "replaces=False"),
        ("        if older is not None:\n", "        if False:\n"),
        ("        if self._closed:\n", "        if False:\n"),
        ("return await asyncio.shield(flight)\n\n", "return await flight\n\n"),
        ("if self._missed > self._explained:", "if self._missed >= self._explained:"),
    ),
    *_of(
        "cache/checksum.py",
        "cache/record cache/disk",
        ("checksum = hashlib.sha256(key.encode())", "checksum = hashlib.sha256()"),
    ),
    *_of(
        "cache/record.py",
        "cache/record",
        ("if self.key != store_key(call.address, self.identity):", "if not call.address:"),
        ("if start != len(value):", "if start > len(value):"),
        ("if len(part) != size:", "if len(part) > size:"),
    ),
    *_of(
        "cache/writer.py",
        "cache/writer cache/cached",
        ("del self._waiting[:MAX_COMMIT_ENTRIES]", "del self._waiting[: MAX_COMMIT_ENTRIES + 1]"),
        ("return landed + [(durable, exc) for _, durable in waiting]", "return landed"),
        ("if durable.done():\n            continue", "if durable.done():\n            break"),
    ),
    *_of(
        "cache/explain.py",
        "cache/explain",
        ("if best is None or distance < best[0]:", "if best is None or distance > best[0]:"),
        ("and record.model == call.model", ""),
        ("        + (recorded.draw != call.draw)\n", ""),
    ),
    *_of(
        "cache/merge.py",
        "cache/bundle",
        ('elif replace(kept, origin="")', "elif kept is not None or replace(kept)"),
    ),
    *_of(
        "cache/bundle.py",
        "cache/bundle",
        ("self._keys[place] != key:", "self._keys[place] < key:"),
        ("self._read(self._size) != checksum.digest()", "self._size < 1"),
        ("names = sorted(set(keys))", "names = list(keys)"),
    ),
    *_of(
        "engine/limits/bucket.py",
        "engine/bucket engine/limited",
        ("self._balance += reserved - actual", "self._balance += actual - reserved"),
        ("            async with self._gate:\n", "            if self._gate:\n"),
        ("                due -= self._balance\n", ""),
        ("if not self._queued and self._balance > self._saved:", "if False:"),
        ("            due -= amount\n            raise", "            raise"),
    ),
    *_of(
        "engine/limits/throttle.py",
        "engine/throttle engine/limited",
        ("wait = delay or min(", "wait = min("),
        ("until = max(self.until, until)", "until = min(self.until or until, until)"),
        ("2.0 ** (self._unexplained - 1)", "2.0**self._unexplained"),
        ("        self._unexplained = 0\n        self._answered", "        self._answered"),
        (
            "storm = sent >= self._cut_at and self._share > STORM_SHARE",
            "storm = self._share > STORM_SHARE",
        ),
        ("1.0 / self.pace(now)", "self.pace(now)"),
    ),
    *_of(
        "engine/limits/concurrency.py",
        "engine/slots engine/limited",
        ("return self.busy + 1 <= self.width", "return self.busy <= self.width"),
        ("        if sent < self._cut_at:\n            return\n", ""),
        ("self._narrow(0.5, 1.0)", "self._narrow(0.5, self._least)"),
        ("self._goal = 2.0 * self.busy", "self._goal = self.busy"),
    ),
    *_of(
        "engine/limits/climb.py",
        "engine/climb",
        ("speed < GAIN * self._speed", "speed > GAIN * self._speed"),
        ("self._rest = min(2.0 * self._rest, MAX_REST)", "self._rest = REST"),
    ),
    *_of(
        "engine/limits/lease.py",
        "engine/lease",
        ("self.share > 0.0 and now < self.until", "self.share > 0.0"),
        ("self.width is None or busy < self.width", "self.width is None or busy <= self.width"),
    ),
    *_of(
        "engine/limits/breaker.py",
        "engine/breaker engine/limited",
        ("self._wait = min(2 * self._wait, MAX_PROBE_WAIT)", "self._wait = FIRST_PROBE"),
        ("self.probe_at = now + max(self._wait, delay)", "self.probe_at = now + self._wait"),
        ("2 * self._last.count(False) > WINDOW", "2 * self._last.count(False) >= WINDOW"),
        ('self.state == "probing" and sent >= self._opened', 'self.state == "probing"'),
        ("        self._silent_since = None\n        if", "        if"),
    ),
    *_of(
        "engine/limits/admission_gate.py",
        "engine/limited engine/budget engine/lease",
        ("                    requests.settle(1.0, 0.0)\n", "                    pass\n"),
        ("self._model_budget.budget.reserve(worst)", "self._model_budget.budget.reserve(0.0)"),
        ("if self._model_budget.budget.over:", "if not self._model_budget.budget.over:"),
    ),
    *_of(
        "engine/limits/rate_limiter.py",
        "engine/limited engine/budget engine/breaker engine/throttle",
        ("            and not self._waiting\n", ""),
        ("spent = flight.worst if usage is None else", "spent = 0.0 if usage is None else"),
        ("limits = self._set.filled(told)", "limits = told.filled(self._set)"),
    ),
    *_of(
        "engine/limits/token_buckets.py",
        "engine/limited engine/budget",
        ("                reservation.release()\n", "                pass\n"),
        ("self.limit.actual(usage, self.amount)", "self.amount"),
    ),
    *_of(
        "engine/accounting/budget.py",
        "engine/budget",
        ("self.spent + self.reserved + worst <= self.cap", "self.spent + worst <= self.cap"),
        (
            "self.spent + self.reserved + worst <= self.cap",
            "self.spent + self.reserved <= self.cap",
        ),
        ("self.reserved - worst if self._flights else 0.0", "self.reserved - worst"),
    ),
    *_of(
        "engine/accounting/prices.py",
        "engine/prices",
        ("- usage.cache_read_tokens - usage.cache_write_tokens", "- usage.cache_read_tokens"),
        ("dearest = max(price.input, price.cache_write)", "dearest = price.input"),
        ("input_tokens > self.above", "input_tokens >= self.above"),
        ("PriceList({**listed().models, **_read(text, str(path))})", 'PriceList(_read(text, ""))'),
        ('(model, _SNAPSHOT.sub("", model), f"{provider}/*")', '(model, f"{provider}/*")'),
    ),
    *_of(
        "engine/accounting/ledger.py",
        "engine/ledger engine/accounts",
        ('if fate == "ambiguous":', 'if fate == "failed":'),
        ("self.at_risk = self.at_risk - worst if self.in_flight else 0.0", "self.at_risk -= worst"),
        ("doubtful=self.doubtful + self.at_risk", "doubtful=self.doubtful"),
        ("            faults[fate, kind] += count", "            faults[fate, kind] = count"),
        ("if not exc.sent:", "if exc.sent:"),
    ),
    *_of(
        "engine/accounting/ledger_file.py",
        "engine/accounts",
        ("account.sent >= accounts[model].sent", "account.sent <= accounts[model].sent"),
    ),
    *_of(
        "engine/runs/outcome.py",
        "engine/outcome",
        ("if captured and min(captured) < 1:", "if captured and max(captured) < 1:"),
        (
            "if probs is not None and not are_probabilities(probs):",
            "if probs is None and not record.failure:",
        ),
    ),
    *_of(
        "engine/runs/run_folder.py",
        "engine/runfolder",
        ("if written != len(lines):", "if not written:"),
        ("self.failed += failed", "self.failed += 1"),
        ("self._ordered = self._ordered and place > self._last", "self._ordered = True"),
        ("if replies < left or", "if replies <= left or"),
        ("if known.identity != self.manifest.identity:", "if known.cells != self.manifest.cells:"),
        ("            os.truncate(file, self._end)\n", "            pass\n"),
    ),
    *_of(
        "engine/runs/scheduler.py",
        "engine/scheduler engine/doubts",
        ("abs(sum(probs) - 1) <= ROUNDING", "sum(probs) - 1 <= ROUNDING"),
    ),
    *_of(
        "engine/runs/workers.py",
        "engine/scheduler",
        (
            "graver = (leaf for kind in CONCERNS_THE_RUN for leaf in leaves",
            "graver = (leaf for kind in () for leaf in leaves",
        ),
        ("            if stop_token.halt is not None:\n                return\n", ""),
    ),
    *_of(
        "engine/sweeps/sweep.py",
        "engine/scheduler engine/walk engine/outcome engine/runfolder",
        (
            "id = _digest(about, row.address, str(side), str(draw))[:16]",
            "id = _digest(about, row.address, str(side))[:16]",
        ),
        (
            "return bisect_right(self._starts, place) - 1",
            "return bisect_right(self._starts, place + 1) - 1",
        ),
        ("            self.code,\n", ""),
        ("sorted(self.identities.items())", "()"),
    ),
    *_of(
        "engine/sweeps/rows.py",
        "engine/report_rows",
        ('kind = f"{kind} #{number}"', "kind = kind"),
        ("if value and any(", "if any("),
    ),
    *_of(
        "engine/sweeps/document.py",
        "engine/document engine/roles",
        ("            if name in built:\n", "            if name in places:\n"),
        ("for length in range(len(path), 1, -1):", "for length in range(2, len(path) + 1):"),
        ("yield from having or parts", "yield from parts"),
        ('else f"{source}:{line + 1}"', 'else f"{source}:{line}"'),
    ),
    *_of(
        "engine/reports/aggregate.py",
        "engine/results engine/beside engine/doubts",
        ("% len(self.sweep.rows)\n", "% (len(self.sweep.rows) + 1)\n"),
        ("record.captured < ENOUGH", "record.captured > ENOUGH"),
        (" | self.doubtful[places]\n", "\n"),
    ),
    *_of(
        "engine/reports/cell_index.py",
        "engine/results engine/beside",
        ("(self.draw * rows + row) * answers", "(row * self._sweep.draws + self.draw) * answers"),
    ),
    *_of(
        "protocols/scoring/world_table.py",
        "engine/results engine/doubts",
        ("np.logical_and.reduce(there, axis=-1)", "np.logical_or.reduce(there, axis=-1)"),
    ),
    *_of(
        "engine/reports/results.py",
        "engine/results engine/beside",
        ("lift = paired(sample.asd, base.asd)", "lift = paired(base.asd, sample.asd)"),
        ("missing=table.cells_a_row - table.outcomes[number]", "missing=table.cells_a_row"),
        ("if isinstance(row.protocol, NaiveJudge)", "if row.protocol"),
        (
            "return value_address(row.protocol.judge), row.protocol.words.digest",
            'return value_address(row.protocol.judge), ""',
        ),
    ),
    *_of(
        "engine/reports/secondary.py",
        "engine/beside",
        (
            "self._sample(1 - right, ran & ~self.cells.truth, SHARE)",
            "self._sample(right, ran & ~self.cells.truth, SHARE)",
        ),
        ("(chosen == self.cells.side) & ~np.isnan", "(chosen != self.cells.side) & ~np.isnan"),
        (
            "np.bincount(of, weights=values[cells])[there] / counts[there]",
            "np.bincount(of, weights=values[cells])[there]",
        ),
    ),
    *_of(
        "engine/reports/failures.py",
        "engine/failures",
        ("key=lambda cause: -cause.count", "key=lambda cause: cause.count"),
        ("cause.cut += said != record.failure.message", "cause.cut += 1"),
    ),
    *_of(
        "engine/reports/health.py",
        "engine/health",
        ("off = cells > 0 and share >= OFF", "off = cells > 0 and share > 2 * OFF"),
        (
            "share = cells / self._run if self._run else 0.0",
            "share = cells / (self._verdicts or 1)",
        ),
    ),
    *_of(
        "engine/reports/verdicts.py",
        "engine/verdicts",
        ("            if id in seen:\n", "            if verdicts.id in seen:\n"),
        (
            "return tuple(world[label] for label in labels)",
            "return tuple(world.values())",
        ),
        ("if abs(total - 1) > SUM_TOLERANCE:", "if total - 1 > SUM_TOLERANCE:"),
    ),
)
