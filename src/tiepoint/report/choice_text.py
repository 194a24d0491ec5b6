# SPDX-License-Identifier: BSD-3-Clause
"""Describe the result of `choose` as text: table of methods, recommendation, its reliability and warnings."""

from __future__ import annotations

import shlex

from ..core.formatting import count_text, first_few
from ..run.choose.result import RELIABLE, SMALL_COVER, Choice
from ..stats.steady_choice import MIN_PAIRS

COLUMNS = ("method", "steady", "pairs", "cover", "against the leader", "s/pair")

NOTHING = "No method confirms any pair: no overlap, or nothing here works. No choice."
MEASURED = (
    "Estimated without truth: on 25 known collections this rule was within 2 points of the best in 22 and 15 "
    "points off at worst."
)
CLASSICAL = (
    "All candidates are hand-crafted. Among such methods no safe gain was seen: on 25 known collections this "
    "rule lost 1.2 points on average, the method that is best elsewhere 2.4; on 5 further ones the rule lost "
    "1.1 and always taking sift 0.3."
)
DENSE = "All candidates are dense. The rule was not measured for dense methods; do not rely on this order."


def extent(choice: Choice) -> str:
    """Return how many pairs are confirmed by at least one method, as a sentence."""
    total, used = len(choice.pairs), len(choice.order.pairs)
    are = "is" if used == 1 else "are"
    text = f"{used} of {count_text(total, 'pair')} {are} confirmed by at least one method"
    rest = total - used
    if not rest:
        return f"{text}."
    others = "the other one says" if rest == 1 else f"the other {rest} say"
    return f"{text}; {others} nothing (no overlap, or too hard for all)."


def table(choice: Choice) -> list[list[str]]:
    """Return one row of `COLUMNS` per method, in order."""
    rows = []
    for name in choice.order.methods:
        seconds = choice.seconds(name)
        rows.append(
            [
                name,
                f"{choice.order.scores[name]:.2f}",
                f"{len(choice.confirmed(name))}",
                f"{choice.cover(name):.2f}",
                against_leader(choice, name),
                f"{seconds:.3g}" if seconds < 9e9 else "failed",
            ]
        )
    return rows


def against_leader(choice: Choice, name: str) -> str:
    """Return the difference of a method to the leader as text, such as ``behind (0.04 to 0.06)``."""
    state = choice.state(name)
    if state == "behind":
        apart = choice.order.differences[name]
        return f"behind ({apart.low:.2f} to {apart.high:.2f})"
    return {"leader": "", "level": "level", "unknown": "not known"}[state]


def advice(choice: Choice) -> str:
    """Return the recommendation as one sentence. It never calls a method best."""
    leader = choice.leader
    if leader is None:
        return NOTHING
    level = list(choice.order.level)
    if not level:
        return f"Use {leader}."
    are = "is" if len(level) == 1 else "are"
    return f"Use {leader}; {_joined(level)} {are} level with it."


def _joined(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def trust(choice: Choice) -> str:
    """Return how reliable such recommendations were in tests. Empty without a recommendation."""
    if choice.leader is None:
        return ""
    if any(c.dense for c in choice.candidates.values()):
        return DENSE
    return CLASSICAL if choice.all_classical else MEASURED


def sentences(choice: Choice) -> list[str]:
    """Return the sentences below the table: the recommendation and its reliability."""
    return [line for line in (advice(choice), trust(choice)) if line]


def warnings(choice: Choice) -> list[str]:
    """Return warnings about unusual images, pairs or matches."""
    found = list(choice.notes)
    if choice.equal:
        pairs = count_text(len(choice.equal), "pair")
        found.append(f"{pairs} of equal images excluded: {first_few(list(choice.equal), 2)}")
    if choice.added:
        few = f"fewer than {MIN_PAIRS} of the first pairs were confirmed"
        found.append(f"{few}, so {choice.added} random pairs were added")
    for name in choice.order.methods:
        if failures := choice.failures(name):
            reason = next(iter(failures.values())).splitlines()[0]
            total = count_text(len(choice.pairs), "pair")
            found.append(f"{name} failed on {len(failures)} of {total}, which count as 0: {reason}")
    if choice.leader is None:
        return found
    return found + _about_pairs(choice) + _about_leader(choice)


def _about_pairs(choice: Choice) -> list[str]:
    found = []
    used = len(choice.order.pairs)
    if used == 1:
        found.append(
            "only one pair is confirmed: about 4 points are lost on average, and there is no interval; "
            "add images"
        )
    elif used < MIN_PAIRS:
        found.append(f"only {used} pairs are confirmed: below {MIN_PAIRS} there is no interval; add images")
    if still := choice.still():
        found.append(
            f"{_some(len(still), used)}: at least half of the matches do not move between the images; "
            "the camera did not move, or a caption was matched"
        )
    for name, keys in choice.turned().items():
        found.append(
            f"{name} does not confirm {count_text(len(keys), 'pair')} with rotated images, such as "
            f"{keys[0]}; try rotating the images"
        )
    return found


def _some(count: int, total: int) -> str:
    return f"{count} of {count_text(total, 'confirmed pair')}"


def _about_leader(choice: Choice) -> list[str]:
    found = []
    leader = choice.order.methods[0]
    if choice.order.scores[leader] < RELIABLE:
        score = choice.order.scores[leader]
        found.append(f"no method is reliable here: the leader {leader} has {score:.2f}, below {RELIABLE:g}")
    if choice.cover(leader) < SMALL_COVER:
        found.append(
            f"the matches of {leader} cover only a small part of the images (cover "
            f"{choice.cover(leader):.2f}): they may be on an object, poster or caption that the images "
            "share instead of the scene"
        )
    return found


def run_command(choice: Choice, store: str | None = None) -> str | None:
    """Return the command that runs the leader on a dataset. None without a leader, or if it is an object."""
    if choice.leader is None or (spec := choice.candidates[choice.leader].spec) is None:
        return None
    data = "DATA" if choice.truth is None else shlex.quote(str(choice.truth))
    parts = ["tiepoint run", shlex.quote(spec), "--task pose/relative --data", data]
    if choice.truth is not None:
        parts.append(f"-o {shlex.quote(f'images={choice.images}')}")
    if store is not None:
        parts.append(f"--store {shlex.quote(store)}")
    return " ".join(parts)
