# SPDX-License-Identifier: BSD-3-Clause
"""Describe races as text: decisions, numbers of units, scope, and pairs of methods without a decision."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.formatting import count_text
from ..store.races import OpenPair, RaceClaim, StoredRace

ABOUT_BENCHMARK = "This is about these {units}. For new scenes run all of them and `tiepoint compare`."
ABOUT_SCENES = (
    "This is about the scenes that these {units} were drawn from, if they are independent draws: the mean "
    "over scenes of each scene's mean. It does not say who is ahead on this benchmark."
)


def points(value: float) -> str:
    """Format a difference of fractions in percentage points: one decimal, or one significant digit below 0.1.

    >>> points(0.2089), points(-0.0048), points(0.000068), points(0.0)
    ('20.9', '-0.5', '0.007', '0.0')
    """
    scaled = 100 * value
    return f"{scaled:.1g}" if 1e-9 < abs(scaled) < 0.095 else f"{scaled:.1f}"


def extent(race: StoredRace) -> str:
    """Return the units of a race as text, such as ``1,440 pairs, mean over 12 sets``."""
    q = race.question
    text = _count(q.units, q.unit)
    return f"{text}, mean over {count_text(q.strata, q.stratum)}" if q.strata > 1 else text


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def claim_sentence(race: StoredRace, claim: RaceClaim) -> str:
    """Return one claim as a sentence."""
    q = race.question
    where = "this benchmark" if q.about == "benchmark" else "scenes like these"
    share = f"{100 * claim.step / q.units:.0f} %"
    if q.about == "benchmark" and claim.step == q.units:
        how = f"known exactly after all {_count(q.units, q.unit)}; difference {points(claim.low)} points"
    elif claim.evidence is None:
        how = (
            f"certain after {_count(claim.step, q.unit)} ({share}), whatever the others show; difference "
            f"between {points(claim.low)} and {points(claim.high)} points"
        )
    else:
        how = (
            f"decided after {_count(claim.step, q.unit)} ({share}), at most {100 * race.alpha:g} % error at "
            f"any time; difference between {points(claim.low)} and {points(claim.high)} points"
        )
    return f"{claim.better} is ahead of {claim.worse} on {where} ({extent(race)}): {how}."


def open_sentence(race: StoredRace, pair: OpenPair) -> str:
    """Describe a pair of methods without a claim in a sentence."""
    q = race.question
    if pair.level:
        named = f"{pair.first} and {pair.second}"
        return f"{named} are level on this benchmark: the same score on all {extent(race)}."
    used = min(race.evaluations[pair.first], race.evaluations[pair.second])
    return (
        f"{pair.first} and {pair.second}: not decided after {used:,} of {_count(q.units, q.unit)}; the "
        f"difference is between {points(pair.low)} and {points(pair.high)} points."
    )


def state_of(race: StoredRace) -> str:
    """Return the state of a race in a few words, such as ``decided after 86 of 1,440``."""
    word = "interrupted" if race.ended is None else "decided" if race.ended == "decided" else "not decided"
    return f"{word} after {race.steps:,} of {race.question.units:,}"


def order_of(race: StoredRace) -> list[str]:
    """Return the methods by wins minus losses, best first."""
    wins = {m.name: 0 for m in race.question.methods}
    for claim in race.claims:
        wins[claim.better] += 1
        wins[claim.worse] -= 1
    return sorted(wins, key=lambda name: -wins[name])


def sentences(race: StoredRace) -> list[str]:
    """Return a race as sentences: claims, open pairs of methods, work, and scope."""
    q = race.question
    lines = [claim_sentence(race, claim) for claim in race.claims]
    lines += [open_sentence(race, pair) for pair in _named_open_pairs(race)]
    if race.ended is None:
        done = _count(race.steps, q.unit)
        lines.append(f"This race was interrupted after {done}; start it again to continue.")
    elif race.ended == "exhausted":
        lines.append(
            "The race ended because no scene was left to sample; more scenes are needed to decide "
            "about scenes like these."
        )
    if len(q.methods) > 2 and race.claims:
        lines.append(
            f"All claims hold together with an error probability of at most {100 * race.alpha:g} %; "
            "each interval holds separately."
        )
    lines.append(work_sentence(race))
    about = ABOUT_BENCHMARK if q.about == "benchmark" else ABOUT_SCENES
    lines.append(about.format(units=_count(q.units, q.unit)))
    if race.note:
        lines.append(f"{race.note[0].upper()}{race.note[1:]}.")
    return lines


def _named_open_pairs(race: StoredRace) -> Sequence[OpenPair]:
    """Return the open pairs that matter for the goal. For `best`, these are pairs of unbeaten methods."""
    if race.question.goal != "best":
        return race.open_pairs
    beaten = {c.worse for c in race.claims}
    return [p for p in race.open_pairs if not {p.first, p.second} & beaten]


def work_sentence(race: StoredRace) -> str:
    """Return the number of evaluations as a sentence, compared with complete runs."""
    used, full = sum(race.evaluations.values()), race.question.units * len(race.evaluations)
    saved = f"{100 * used / full:.2g} %" if used < full / 100 else f"{100 * used / full:.0f} %"
    verb = "would have used" if race.replayed else "used"
    return f"The race {verb} {used:,} of {full:,} evaluations ({saved})."


def full_sentences(race: StoredRace) -> list[str]:
    """Return the scores and differences of the complete runs as sentences, for a race of stored runs."""
    if race.full is None:
        return []
    named = ", ".join(f"{name} {100 * race.full[name]:.2f}" for name in order_of(race))
    lines = [f"The complete runs: {race.question.metric} {named} (percent)."]
    for claim in race.claims:
        if claim.step == race.question.units:
            continue
        gap = race.full[claim.better] - race.full[claim.worse]
        lines.append(
            f"{claim.better} minus {claim.worse}: {points(gap)} points in the complete runs; "
            f"{points(claim.mean)} when the race stopped, which exaggerates."
        )
    return lines
