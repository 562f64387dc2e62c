"""The tables and diagrams of mechanisms in docs/protocols.md, from the protocols and tests.

Write them again with: python -m tools.mechanisms"""

import ast
import asyncio
import inspect
from importlib import import_module
from pathlib import Path

from oversight.protocols.catalogue import PROTOCOLS
from oversight.protocols.judges.repeated import Ensemble
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.protocol import Protocol
from tests.world import calls, plain
from tools.claims import claims_of, formula
from tools.seats import PICTURES, blocks_of, described, diagram
from tools.sharing import shared

ROOT = Path(__file__).parents[1]
TESTS, DOCS = ROOT / "tests", ROOT / "docs" / "protocols.md"
PAPERS = {
    "consultancy interactive_debate": "Khan et al. 2024",
    "double_consultancy": "Arnesen et al. 2024",
    "debate debate_game": "Irving, Christiano and Amodei 2018",
    "open_trust": "Sudhir et al. 2025",
    "open_consultancy open_debate": "Roger 2024; Kenton et al. 2024",
    "cross_examination": "Barnes and Christiano 2020",
    "critique proposer_critic": "Saunders et al. 2022",
    "debate_feedback": "Cheng et al. 2024",
    "market_making adversarial_propaganda": "Hubinger 2020",
    "amplification": "Christiano, Shlegeris and Amodei 2018",
    "recursive_reward_modelling": "Leike et al. 2018",
    "doubly_efficient_debate": "Brown-Cohen, Irving and Piliouras 2024",
    "prover_estimator_debate": "Brown-Cohen, Irving and Piliouras 2025",
    "weak_to_strong": "Burns et al. 2023; Lang, Huang and Li 2025",
}
"""Papers of mechanisms; the docstring of each file has their numbers."""
CLAIMED = "| mechanism | a liar gains | over | the truth loses | given | checked by |"

SIM = "engine/sim_expected::without_chance_each_problem_scores_what_the_closed_form_says"

TRUTHS: dict[str, list[str]] = {
    "recorded": [
        "engine/published::transcripts_are_judged_again_next_to_their_judges",
        "debates::a_recorded_conversation_is_judged_as_it_stood_after_its_rounds",
    ],
    "naive_judge": [SIM],
    "open_trust": ["debates::open_trust_shares_everything_and_is_worth_nothing"],
    "propaganda": [SIM],
    "consultancy": [SIM],
    "debate": [
        SIM,
        "debates::judge_who_believes_the_last_speaker_is_won_by_the_reply",
    ],
    "debate_game": [
        "planted_liars::unread_verdicts_do_not_lose_a_game",
        "cross_examination::the_verdict_is_the_equilibrium_of_the_verdicts_on_all_pairs_of_drafts",
        "cross_examination::in_a_sequential_game_the_last_speaker_answers_the_best_it_can",
        "cross_examination::a_judge_whose_best_speech_is_known_hears_it_from_both_sides",
    ],
    "interactive_debate": ["debates::evidence_brought_out_by_questions_decides_for_the_truth"],
    "open_consultancy": ["engine/beside::open_protocols_are_split_by_the_choice_of_the_agent"],
    "open_debate": ["engine/beside::open_protocols_are_split_by_the_choice_of_the_agent"],
    "double_consultancy": [
        "debates::a_consultant_who_cannot_hear_the_other_cannot_copy_its_evidence"
    ],
    "cross_examination": ["claims::a_meaning_is_pinned_down_wherever_it_shifts"],
    "critique": [
        "planted_liars::a_rater_made_unreadable_hides_no_critique",
        "claims::no_lie_passes_helpers_who_see_it",
        "helpers::an_honest_critic_finds_a_planted_flaw_as_often_as_its_draws_allow",
        "helpers::a_critic_that_was_turned_takes_what_an_honest_one_gave",
    ],
    "proposer_critic": ["helpers::a_judge_who_trusts_the_critic_is_as_good_as_the_critic"],
    "market_making": [
        "claims::a_liar_wins_if_nothing_is_claimed",
        "debates::a_market_that_knows_the_judge_answers_what_it_believes_of_all_that_can_be_said",
        "debates::trade_ends_at_the_fixed_point_of_the_market",
        SIM,
    ],
    "adversarial_propaganda": [SIM],
    "amplification": [
        "cross_examination::with_honest_helpers_it_answers_what_nobody_in_it_could",
        "cross_examination::each_helper_that_steers_takes_what_it_is_worth_of_asd",
        "claims::steering_helpers_gain_what_the_dose_allows",
    ],
    "recursive_reward_modelling": [
        "helpers::honest_helpers_give_the_judge_what_it_cannot_see_and_adversarial_ones_take_it",
        "helpers::a_flaw_that_shows_three_levels_down_is_found_at_that_depth_and_no_other",
        "helpers::best_of_n_against_a_reward_without_truth_gains_what_the_largest_of_n_gains",
    ],
    "doubly_efficient_debate": [
        "claims::certainty_that_nobody_may_contest_gains_what_the_claim_says",
        "claims::a_plain_argument_is_scored_by_its_weakest_step_and_says_so",
        "a_planted_flaw_is_found_as_often_as_most_votes_see_it",
        "best_response::no_list_of_steps_carries_a_lie_past_an_exact_judge",
    ],
    "prover_estimator_debate": [
        "planted_liars::a_subclaim_cannot_speak_from_among_the_judges_instructions",
        "claims::no_split_of_three_two_deep_makes_a_false_claim_likely",
        "best_response::no_split_carries_a_lie_past_an_exact_estimator",
        "a_claim_is_as_likely_as_its_parts_given_what_the_judge_says_of_one",
        "restating_a_claim_does_not_make_it_likelier",
        "a_calibrated_estimator_who_cannot_find_the_flaw_is_right_on_average",
    ],
    "debate_feedback": [
        "helpers::the_ranking_raises_the_share_of_sound_responses_as_it_should",
        "helpers::a_model_that_is_kinder_to_its_own_shows_in_the_score",
    ],
    "weak_to_strong": [
        "debates::the_error_that_each_judge_makes_for_itself_falls_with_their_number"
    ],
    "jury": [
        "independent_jurors_are_right_as_often_as_condorcet_says",
        "pools_minimise_their_distance_to_the_jurors",
    ],
    "ensemble": [
        "jury::an_unread_member_of_an_ensemble_bounds_its_verdict",
    ],
    "best_of": ["drafting::the_spoken_draft_scores_at_least_as_draft_0_on_any_side_in_any_seat"],
    "quotes": ["shown::a_judge_who_goes_by_our_marks_is_fooled_by_quotes_out_of_context_alone"],
    "side_check": [
        "engine/doubts::speeches_that_fail_their_side_check_widen_the_bounds_by_their_share"
    ],
}
"""By mechanism, as sweep files call it: the tests of planted worlds in which the right outcome is
known; their docstrings tell the world and the outcome. A test is named without `test_`, after the
name of its file where that is not the mechanism's."""


def below(room: str, name: str) -> str:
    """The one test file of that name in a room, below tests/."""
    (file,) = (TESTS / room).rglob(f"test_{name}.py")
    return str(file.relative_to(TESTS))


def counted() -> str:
    """Diagram, file, calls and paper of every mechanism, as Markdown."""
    parts = [_counted(name, kind, plain(kind)) for name, kind in PROTOCOLS.items()]
    ensemble = NaiveJudge(Ensemble(StatedJudge("sim/quiet")))
    return "\n\n".join([*parts, _counted("ensemble", Ensemble, ensemble)])


def _counted(name: str, kind: type, protocol: Protocol) -> str:
    a, b = asyncio.run(calls(protocol))
    file = Path(inspect.getfile(kind)).relative_to(DOCS.parents[1])
    picture = ""
    if name in PROTOCOLS:
        picture = f"![{described(blocks_of(name))}](pictures/seats/{name}.svg)\n\n"
    paper = next((f" {paper}." for names, paper in PAPERS.items() if name in names.split()), "")
    counts = f"{len(a)} + {len(b)} calls, {len(a & b)} shared, {len(a | b)} paid"
    return f"### {name}\n\n{picture}[`{kind.__name__}`](../{file}): {counts}.{paper}"


def known() -> str:
    """The known truths of every mechanism, as Markdown: links to the tests, whose docstrings tell
    them. AttributeError for a test that is gone."""
    lines = []
    for mechanism, places in TRUTHS.items():
        links = ", ".join(_linked(mechanism, place) for place in places)
        lines.append(f"- `{mechanism}`: {links}")
    return "\n".join(lines)


def _linked(mechanism: str, place: str) -> str:
    file, _, told = place.rpartition("::")
    room, _, stem = file.rpartition("/")
    where, name = below(room or "protocols", stem or mechanism), f"test_{told}"
    module = where.removesuffix(".py").replace("/", ".")
    assert inspect.getdoc(getattr(import_module(f"tests.{module}"), name)), place
    return f"[`{told}`](../tests/{where})"


def claimed() -> str:
    """Claims of every mechanism at its default settings, as Markdown."""
    names_by_claim: dict[tuple[str, ...], list[str]] = {}
    rows = {name: plain(kind) for name, kind in PROTOCOLS.items()}
    odds = plain(PROTOCOLS["doubly_efficient_debate"], probabilities=True)
    for name, protocol in {**rows, "doubly_efficient_debate: {probabilities: true}": odds}.items():
        for claim in claims_of(protocol):
            limits = [f"{claim.steps} steps"] if claim.steps is not None else []
            limits += [f"tolerance {claim.tolerance:.3g}"] if claim.tolerance else []
            held = f" ({', '.join(limits)})" if limits else ""
            gain, loss = (
                formula(exact, slope) + (f", e below {below:.3g}" if below < 1 else "")
                for exact, slope, below in (
                    (claim.gain, claim.error_gain, claim.judge_error),
                    (claim.loss, claim.error_loss, claim.truth_error),
                )
            )
            given = claim.given[:1].upper() + claim.given[1:]
            row = (gain, f"{claim.over}{held}", loss, given, claim.check)
            names_by_claim.setdefault(row, []).append(f"`{name}`")
    lines = (" | ".join([", ".join(names), *row]) for row, names in names_by_claim.items())
    return "\n".join([CLAIMED, "|---|---:|---|---:|---|---|", *(f"| {line} |" for line in lines)])


BESIDE = "| | ours | SOlib | Khan et al. 2024 | Inspect |"
OTHERS = {
    "debate": "241, a step written twice | 992, and 163 of YAML | 119, sequential alone",
    "consultancy": "122 | the same, and 124 of YAML | 95",
    "critique": "– | 183 | 65: it rewrites, and no judge decides",
}
"""Lines of other projects' code for the same, with their agents, prompts and tasks."""


def beside() -> str:
    """Our files compared with other projects: lines, and names of the package to know."""
    lines, known = [BESIDE, "|---|---|---|---|---|"], set[str]()
    for name, others in OTHERS.items():
        text = Path(inspect.getfile(PROTOCOLS[name])).read_text()
        imported = [each for each in ast.parse(text).body if isinstance(each, ast.ImportFrom)]
        names = {alias.name for each in imported if each.level for alias in each.names}
        known |= names if name != "critique" else set()
        lines.append(f"| {name} | {len(text.splitlines())}, {len(names)} names | {others} |")
    lines.append(f"| to know for your own protocol | {len(known)} | 7 | 9 | 6 |")
    return "\n".join(lines)


TABLES = {
    "beside": beside,
    "counted": counted,
    "shared": shared,
    "claimed": claimed,
    "known": known,
}


def written(name: str) -> str:
    """A table as the document has it."""
    _, _, rest = DOCS.read_text().partition(f"<!-- {name}: begin -->")
    return rest.partition(f"<!-- {name}: end -->")[0].strip()


def write(name: str) -> None:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = DOCS.read_text().partition(begin)
    _, _, after = rest.partition(end)
    DOCS.write_text(f"{before}{begin}\n{TABLES[name]()}\n{end}{after}")


if __name__ == "__main__":
    for table in TABLES:
        write(table)
    for mechanism in PROTOCOLS:
        (PICTURES / f"{mechanism}.svg").write_text(diagram(mechanism, blocks_of(mechanism)))
