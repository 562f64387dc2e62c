"""Plausible faults of mechanisms and judges: each is one edit of one line, as a slip would be.

Every mutant must die. By known truths alone most of them must: a test of what must come out, which
says so in its docstring, tells more than one of how it is done.
"""

# What stands in a file stands here on one line, however long it is.

from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mutant:
    file: str
    """Below the root of the checkout."""
    old: str
    """What stands there once."""
    new: str
    tests: tuple[str, ...]
    """Test files that are about it, below tests/."""


def below(room: str, name: str) -> str:
    """The one test file of that name in a room, below tests/."""
    (file,) = (TESTS / room).rglob(f"test_{name}.py")
    return str(file.relative_to(TESTS))


def _of(file: str, tests: str, *edits: tuple[str, str]) -> list[Mutant]:
    named = tuple(below("protocols", name) for name in tests.split())
    return [Mutant(f"protocols/{file}", old, new, named) for old, new in edits]


DE = "mechanisms/doubly_efficient_debate.py"
PE = "mechanisms/prover_estimator_debate.py"
MM = "mechanisms/market_making.py"
RRM = "mechanisms/recursive_reward_modelling.py"

MUTANTS: tuple[Mutant, ...] = (
    *_of(
        DE,
        "doubly_efficient_debate best_response_steps",
        ("steps[:number]", "steps[number - 1 : number]"),
        ("steps[:number]", "steps"),
        ("return prod(odds)", "return 1.0"),
        ("return prod(odds)", "return min(odds, default=1.0)"),
        ("passes(odds[number - 1], belief)", "passes(odds[0], belief)"),
        ("            return belief\n", "            return 1 - belief\n"),
        ("        if number:\n", "        if number > 1:\n"),
        ("floor.question.other(side))\n        may_pass", "side)\n        may_pass"),
        ('self.opponent_is == "honest" or', 'self.opponent_is != "honest" or'),
        ("range(0 if may_pass else 1, steps + 1)", "range(0 if may_pass else 1, steps)"),
        ("probs_of(belief.value, side, question)", "probs_of(1 - belief.value, side, question)"),
        ("belief.value > 1 / 2", "belief.value >= 1 / 2"),
        ("(*odds, said.number", "(said.number"),
        ('replace(as_list(steps), reasoning="")', "as_list(steps)"),
        ("float(self.sampling.passes", "1 - float(self.sampling.passes"),
    ),
    *_of(
        "mechanisms/commitment.py",
        "doubly_efficient_debate prover_estimator_debate best_response_steps",
        ("entries if len(entries) <= most else None", "entries[:most]"),
        ("(*theirs, ending(theirs, listed.stated))", "theirs"),
        ("most + 1)", "most + 2)"),
        ("in (False, True)", "in (False,)"),
        ('" ".join(text.split())', "text"),
    ),
    *_of(
        "sampling.py",
        "sampling doubly_efficient_debate best_response_steps",
        ("(self.close + self.far) / 2", "self.far"),
        ("< round(self.threshold, 9)", "<= round(self.threshold, 9)"),
        ("abs(stated - share)", "stated - share"),
        ("(2 * error**2)", "error**2"),
    ),
    *_of(
        PE,
        "prover_estimator_debate prover_estimator_verdict best_response_splits",
        ("return link * min(", "return min("),
        ("sum(holding[needed:])", "sum(holding[needed - 1 :])"),
        ("sorted(subclaims)[-needed]", "1.0"),
        ("sorted(subclaims)[-needed]", "sorted(subclaims)[needed - 1]"),
        ("min(estimate, 1 - opposite)", "1 - opposite"),
        ("min(estimate, 1 - opposite)", "min(estimate, opposite)"),
        ('level.truth_is == "lower" and place', 'level.truth_is == "higher" and place'),
        ("    p = label\n", "    p = levels[-1].estimates[levels[-1].picked]\n"),
        ("estimates[level.picked] = p", "estimates[0] = p"),
        ('1 if count == "any" else len(texts)', "len(texts)"),
        ("Level(estimates, number - 1", "Level(estimates, number - 2"),
        ("chained(levels, label.value)", "label.value"),
        ("return off if level.truth_is", "return -off if level.truth_is"),
        ("split.entries[level.picked]", "split.entries[0]"),
        ("estimate, claim = 1 - estimate", "estimate, claim = estimate"),
        ("q * (1 - p) for q in holding), 0.0]", "q * p for q in holding), 0.0]"),
        ('"all" if needed == len(subclaims)', '"all" if needed <= len(subclaims)'),
    ),
    *_of(
        "mechanisms/debate_game.py",
        "debate_game",
        ("value == min(ceilings)", "value <= min(ceilings)"),
        ("max(fmean(game.first_chooses", "min(fmean(game.first_chooses"),
        ("min(fmean(game.second_chooses", "max(fmean(game.second_chooses"),
        ("return solved([[game] for game in games])", "return solved([games])"),
        ("game.drawn if argues_first", "game.drawn if not argues_first"),
        ("first if argues_first else second", "second if argues_first else first"),
        ("-entry for entry in column", "entry for entry in column"),
        ("nth(ask, n)", "ask"),
    ),
    *_of(
        MM,
        "market_making adversarial_propaganda markets",
        ("        return Verdict(prices[-1],", "        return Verdict(decided.probs,"),
        ("        return Verdict(prices[-1],", "        return Verdict(prices[0],"),
        ("question.other(side), MARKET_ADVERSARY", "side, MARKET_ADVERSARY"),
        ("distance(prices[-2], prices[-1]) < epsilon", "distance(prices[0], prices[-1]) < epsilon"),
        (
            "distance(prices[-2], prices[-1]) < epsilon",
            "distance(prices[-2], prices[-1]) > epsilon",
        ),
        ("if turn.side))", "))"),
        ("zip(p, q, strict=True)) / 2", "zip(p, q, strict=True))"),
        ("-sum(weight * log(price, place)", "-sum(log(price, place)"),
        ("for price in prices)\n", "for price in prices[1:])\n"),
        ("0.0 - moved", "moved"),
        ("stated, last = await price(speeches(floor))", "stated, last = await price(floor)"),
        ("for _ in range(rounds):", "for _ in range(rounds + 1):"),
    ),
    *_of(
        "mechanisms/adversarial_propaganda.py",
        "adversarial_propaganda markets",
        ("judge(speeches(floor), ask", "judge(floor, ask"),
        ("prices[-1][question.place(side)]", "prices[0][question.place(side)]"),
        ("if self.market is not None:", "if self.market is None:"),
        ("distance(prices[-2], prices[-1]) < self", "distance(prices[-2], prices[-1]) > self"),
    ),
    *_of(
        "mechanisms/critique.py",
        "critique",
        ("reverse=True", "reverse=False"),
        ("nth(ask, index)) for index", "ask) for index"),
        ("critic.speak_unlabelled(floor", "critic.speak(floor"),
        ("drafts[place] for place in best", "drafts[0] for place in best"),
        ("if self.shown == self.critiques:", "if self.shown <= self.critiques:"),
        ("ratings[best[0]]", "ratings[best[-1]]"),
        ("self._rating(floor.then(draft), side, ask)", "self._rating(floor, side, ask)"),
        ("problem.flaws[problem.question.place(side)]", "problem.flaws[-1]"),
        ("(wrong, max)", "(wrong, min)"),
        ('("nitpick", {}), min)', '("nitpick", {}), max)'),
        ("(floor.turns[0], turn)", "(turn,)"),
        ("            except Unreadable:", "            except ValueError:"),
    ),
    *_of(
        "datasets/proposals.py",
        "proposals",
        (".choice(wrong)", ".choice(wrong[:1])"),
        ("1.0 if place == best else -1.0", "-1.0 if place == best else 1.0"),
        ("sorted((best, drawn))", "(best, best)"),
        ("group=problem.group or problem.id", "group=problem.group"),
    ),
    *_of(
        "question.py",
        "graded",
        ("best <= 0 or ", ""),
        ("second > 0 or ", ""),
        ("any(value != second for value in wrong)", "False"),
    ),
    *_of(
        "judges/judge.py",
        "graded every_judge",
        ('"graded_" if', '"" if'),
        ("brief.rules(case.floor.question)", "brief.task"),
        ("max_tokens=self.turn_tokens", "max_tokens=self.max_tokens"),
    ),
    *_of(
        "mechanisms/auxiliary.py",
        "critique debate_feedback recursive_reward_modelling proposer_critic",
        ('"sided": question.rival(side)', '"sided": side'),
        ('"adversarial": side}', '"adversarial": question.rival(side)}'),
        ('{"honest": None', '{"honest": side'),
    ),
    *_of(
        "mechanisms/proposer_critic.py",
        "proposer_critic",
        ('if self.aux == "sided" else side', 'if self.aux != "sided" else side'),
        ('("agrees", held == side)', '("agrees", held != side)'),
        ("self.seat(critic, held, REVIEW)", "self.seat(critic, side, REVIEW)"),
        ("choose(critic, floor, ask", "choose(self.agent, floor, ask"),
        ("seat.speak_unlabelled(floor, ask)", "seat.speak(floor, ask)"),
    ),
    *_of(
        "mechanisms/amplification.py",
        "amplification",
        ("if not depth or not budget:", "if depth or not budget:"),
        ("coin.random() < self.steered", "coin.random() > self.steered"),
        (
            "return self.seat(self.agent, side, STEERER)",
            "return self.seat(self.agent, None, STEERER)",
        ),
        ("for turn in (each.asked, each.answer)", "for turn in (each.asked,)"),
        ("(steers,))", "(True,))"),
        ("budget - len(asked), len(asked))", "budget, len(asked))"),
        ("speaker=AT_HAND),))", "speaker=AT_HAND),)[:0])"),
        ('f"{question.text}\\0{subquestion}"', "question.text"),
    ),
    *_of(
        RRM,
        "recursive_reward_modelling",
        ("best = max(rewards", "best = min(rewards"),
        ("verdict.probs[question.place(side)]", "verdict.probs[0]"),
        ("rewards[best] - next", "next"),
        ("floor, nth(ask, index))", "floor, ask)"),
        ("floor.then(*(turn for pair in found for turn in pair))\n\n", "floor\n\n"),
        ("depth - 1, ask) for each in narrower", "0, ask) for each in narrower"),
        ("helper.speak_unlabelled(asked, ask)", "helper.speak(asked, ask)"),
    ),
    *_of(
        "mechanisms/debate_feedback.py",
        "debate_feedback",
        ("if score == best)", "if score == worst)"),
        ('("spread", best - worst)', '("spread", best)'),
        ("side, nth(ask, index), ask)", "side, ask, ask)"),
        ("'own' if self.own else 'anothers'", "'anothers' if self.own else 'own'"),
        ("for _ in range(self.rounds):", "for _ in range(1):"),
    ),
    *_of(
        "mechanisms/debate.py",
        "debate interactive_debate exchange weak_to_strong",
        (
            "if answer == side else self.opponent or self.agent",
            "if answer != side else self.opponent or self.agent",
        ),
        ("(side, *question.others(side))", "question.answers"),
        ("        if self.simultaneous:\n", "        if not self.simultaneous:\n"),
        ("range(1, self.rounds + 1)", "range(1, self.rounds)"),
    ),
    *_of(
        "mechanisms/interactive_debate.py",
        "interactive_debate",
        ("        if number == 1:\n", "        if number >= 1:\n"),
        (
            "return await hear(floor, self.judge_seat(brief), ask=ask)",
            "await hear(floor, self.judge_seat(brief), ask=ask)\n        return floor",
        ),
    ),
    *_of(
        "mechanisms/double_consultancy.py",
        "double_consultancy",
        ("self.agent if answer == side else self.opponent or self.agent", "self.agent"),
        ("for turn in consultancy.turns))", "for turn in consultancy.turns[:0]))"),
        (
            "alone.converse(floor, side, ask)",
            "alone.converse(floor, floor.question.answers[0], ask)",
        ),
        ("if turn.side else replace", "if not turn.side else replace"),
    ),
    *_of(
        "mechanisms/consultancy.py",
        "consultancy double_consultancy",
        ('== (self.first == "client")', '== (self.first != "client")'),
        ("for n in range(self.turns):", "for n in range(self.turns - 1):"),
        (
            "self.seat(self.agent, side, CONSULTANT",
            "self.seat(self.agent, floor.question.answers[0], CONSULTANT",
        ),
    ),
    *_of(
        "mechanisms/cross_examination.py",
        "cross_examination",
        ("text=said[place].up_to)", "text=speech.text)"),
        (
            "pinned = floor.then(replace(speech, text=said[place].up_to), challenge)",
            "pinned = floor.then(speech, *exchanges, challenge)",
        ),
        ("return floor.then(speech, *exchanges)", "return floor.then(speech)"),
        ('whole("statement", numbers) - 1', 'whole("statement", numbers) - 2'),
        (
            "self.seat(self.agent, side, WITNESS)",
            "self.seat(self.opponent or self.agent, side, WITNESS)",
        ),
    ),
    *_of(
        "mechanisms/open_protocols.py",
        "open_protocols",
        ("await run(question, chosen, ask)", "await run(question, question.answers[0], ask)"),
    ),
    *_of(
        "mechanisms/baselines.py",
        "baselines",
        ("float(answer == side)", "float(answer == chosen)"),
        ("float(answer == side)", "float(answer != side)"),
    ),
    *_of(
        "mechanisms/weak_to_strong.py",
        "weak_to_strong",
        ("await self.panel().judge(floor", "await self.panel().judge(Transcript(question)"),
        ("Ensemble(self.judge, self.size)", "Ensemble(self.judge, 1)"),
        ("(self.judge, *self.weak)", "(self.judge,)"),
    ),
    *_of(
        "judges/jury.py",
        "jury",
        ("w * p for w, p in zip(shares", "p for w, p in zip(shares"),
        ("weight / sum(weights)", "weight"),
        ("w * log(row, n)", "log(row, n)"),
        ("part / total for part in row", "part for part in row"),
    ),
    *_of(
        "judges/weighing.py",
        "weighing ensemble",
        ("if errors[best] >= 1 / 2:", "if errors[best] > 1:"),
        ("(1 if ok else odds)", "(odds if ok else 1)"),
        ("(sum(row) + 1) / (len(row) + 2)", "1 - (sum(row) + 1) / (len(row) + 2)"),
        ("weights[best] = math.log(odds)", "weights[best] = 1.0"),
    ),
    *_of(
        "judges/ensemble.py",
        "ensemble",
        (
            "replace(self.member, temperature=self.temperature, shots=shots)",
            "replace(self.member, temperature=self.temperature)",
        ),
        ("nth(ask, number)) for number, member", "ask) for number, member"),
        ("mixed[:middle], mixed[middle:]", "mixed, mixed"),
        ("== 1\n", "< 1\n"),
    ),
    *_of(
        "judges/exchange.py",
        "exchange",
        ("question.answers[::-1]", "question.answers"),
        ("for turn in reversed(each)", "for turn in each"),
        ("part if place % 2 else", "part if not place % 2 else"),
    ),
    *_of(
        "judges/judge.py",
        "exchange judges every_judge jury",
        ("probs=each.probs[::-1]) for each in second", "probs=each.probs) for each in second"),
        ("(seen, order[::-1]) if case.statement", "(seen, order) if case.statement"),
        ("case if self.reads_passage else", "case if not self.reads_passage else"),
        ("weight / total for weight in weights", "weight for weight in weights"),
    ),
    *_of(
        "judges/case.py",
        "prover_estimator_verdict doubly_efficient_debate best_response_steps",
        ("p if answer == side else share", "p if answer != side else share"),
    ),
    *_of(
        "drafting/best_of.py",
        "best_of",
        ("turns[max(beliefs", "turns[min(beliefs"),
        ("belief(floor.then(turn), side", "belief(floor.then(turn), floor.question.rival(side)"),
        ("call.drawn(n)", "call.drawn(0)"),
    ),
    *_of(
        "mechanisms/cross_examination.py",
        "cross_examination",
        ("statement=said[place].text,", "statement=said[0].text,"),
        ("floor.then(as_statements(speech, said), *exchanges)", "floor.then(*exchanges)"),
        ("self.seat(self.opponent or self.agent, against,", "self.seat(self.agent, against,"),
    ),
    *_of(
        "mechanisms/double_consultancy.py",
        "double_consultancy",
        ("self.first, self.turns, prompts", "self.first, 1, prompts"),
    ),
    *_of(
        "mechanisms/consultancy.py",
        "consultancy double_consultancy",
        (
            "self.judge_seat(self.brief(CLIENT, **told))",
            "self.seat(self.agent, side, CLIENT, **told)",
        ),
    ),
    *_of(
        "mechanisms/debate_feedback.py",
        "debate_feedback",
        ("        floor = floor.then(response)\n", ""),
        ("speaker = self.participant or self.agent", "speaker = self.agent"),
    ),
    *_of(
        MM,
        "market_making adversarial_propaganda markets",
        (
            "market = self.seat(self.agent, None, MARKET)",
            "market = self.seat(self.agent, side, MARKET)",
        ),
        ("self.adversary or self.agent, question", "self.agent, question"),
        ("adversary.speak(floor, ask)", "adversary.speak(speeches(floor), ask)"),
    ),
    *_of(
        "mechanisms/amplification.py",
        "amplification",
        (
            "self.seat(self.agent, None, AMPLIFICATION_HELPER)",
            "self.seat(self.agent, side, AMPLIFICATION_HELPER)",
        ),
        ("overseer.speak(with_findings(at_hand, findings), ask)", "overseer.speak(at_hand, ask)"),
        ("question.rival(side), OPPOSED", "side, OPPOSED"),
    ),
    *_of(
        "mechanisms/critique.py",
        "critique",
        ("self.critic or self.agent, floor.question", "self.agent, floor.question"),
        ("ranker = self.ranker or self.judge", "ranker = self.judge"),
        ("[: self.shown]", "[: self.shown + 1]"),
        (
            "hear(floor, self.seat(self.agent, side, REBUTTAL)",
            "hear(floor, self.seat(self.agent, None, REBUTTAL)",
        ),
    ),
    *_of(
        RRM,
        "recursive_reward_modelling",
        ("self.helper or self.agent, floor.question", "self.agent, floor.question"),
    ),
    *_of(
        "mechanisms/proposer_critic.py",
        "proposer_critic",
        ("self.seat(self.agent, side, PROPOSER)", "self.seat(self.agent, None, PROPOSER)"),
    ),
    *_of(
        PE,
        "prover_estimator_debate prover_estimator_verdict best_response_splits",
        ("        for _ in range(self.depth):\n", "        for _ in range(1):\n"),
        ("at_hand = _doubted(leaf, level, self.words)", "at_hand = (leaf,)"),
    ),
    *_of(
        DE,
        "doubly_efficient_debate best_response_steps",
        (
            "self.seat(self.opponent or self.agent, against, role)",
            "self.seat(self.agent, against, role)",
        ),
    ),
    *_of(
        "judges/jury.py",
        "jury",
        ("median(column) for column", "max(column) for column"),
    ),
    *_of(
        "judges/ensemble.py",
        "ensemble",
        ("if shot.floor.question.text != about]", "if shot.floor.question.text == about]"),
        ("WEIGHINGS[self.weighing](right) if held_out", 'WEIGHINGS["uniform"](right) if held_out'),
    ),
    *_of(
        "judges/judge.py",
        "exchange judges every_judge",
        ("Verdict(average(means), case.floor", "Verdict(means[0], case.floor"),
    ),
)
