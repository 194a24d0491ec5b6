# SPDX-License-Identifier: BSD-3-Clause
"""Figure of a race: the confidence sequences of the differences over units, with the decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...formats.csv_table import to_csv
from ...stats.racing import Interval, running
from ...store.races import StoredRace
from ..race_text import extent
from .figure import Figure, escape_mathtext, short
from .svg import INK, Drawing, look

WIDTH, HEIGHT, TOP = 5.2, 3.0, 0.25
MAX_PAIRS = 8
"""Number of pairs that are drawn; the data have all."""


def race_figure(race: StoredRace) -> Figure:
    """Return the figure of a race. Each band is one pair of methods, and a mark is its decision."""
    unit = race.question.unit
    drawn = _oriented(race)[:MAX_PAIRS]

    def draw(axes: Any) -> None:
        for number, (name, sets, decided) in enumerate(drawn):
            style = look(number)
            x = [n for n, _, _ in sets]
            low, high = ([100 * s[k] for s in sets] for k in (1, 2))
            tint = style["color"]
            axes.fill_between(x, low, high, color=tint, alpha=0.15, linewidth=0)
            axes.plot(x, low, color=tint, linewidth=1.2, label=escape_mathtext(short(name, 44)))
            axes.plot(x, high, color=tint, linewidth=1.2)
            if decided is not None:
                axes.plot([decided], [low[-1]], marker="o", markersize=5, color=tint)
                axes.annotate(
                    f"{decided:,}",
                    (decided, low[-1]),
                    textcoords="offset points",
                    xytext=(4, 5),
                    fontsize=7.5,
                    color=tint,
                )
        axes.axhline(0, color=INK, linewidth=0.8)
        if race.steps > 1:
            axes.set_xscale("log")
            ticks = _ticks(race.steps)
            axes.set_xticks(ticks, labels=[f"{t:,}" for t in ticks])
            axes.minorticks_off()
        axes.grid(True)
        axes.set_xlabel(f"{unit}s used, of {race.question.units:,}")
        axes.set_ylabel("difference (points)")
        axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.46, -0.45 / (HEIGHT - TOP)),
            ncols=1 if len(drawn) < 3 else 2,
        )

    rows = -(-len(drawn) // (1 if len(drawn) < 3 else 2))
    picture = Drawing(
        draw,
        label="race",
        width=WIDTH,
        height=HEIGHT + 0.5 + 0.19 * rows,
        bottom=0.5 + 0.19 * rows,
        top=TOP,
    )
    about = "this benchmark" if race.question.about == "benchmark" else "scenes like these"
    caption = (
        f"Race {race.id} on {race.question.task}, {race.question.metric} ({race.question.group}), about "
        f"{about} ({extent(race)}). Each band is the confidence sequence of one difference: with "
        f"{100 - 100 * race.alpha:g} % probability it contains the difference at all numbers of units. A "
        "mark is a decision."
    )
    if len(drawn) < len(race.sequences):
        caption += f" {len(drawn)} of {len(race.sequences)} pairs are drawn; the data have all."
    return Figure(
        f"race {race.id}", f"Race on {race.question.task}", caption, picture, _data(race), kind="race"
    )


def _oriented(race: StoredRace) -> list[tuple[str, Sequence[Interval], int | None]]:
    """Return name, running confidence sequence and decision of each pair. The winner is first in the name."""
    found = []
    for pair in race.sequences:
        claim = next((c for c in race.claims if {c.better, c.worse} == {pair.first, pair.second}), None)
        turned = claim is not None and claim.better == pair.second
        a, b = (pair.second, pair.first) if turned else (pair.first, pair.second)
        sets = running([(n, -high, -low) for n, low, high in pair.sets] if turned else list(pair.sets))
        found.append((f"{a} minus {b}", sets, None if claim is None else claim.step))
    # Decided pairs first, in the order of their decisions.
    return sorted(found, key=lambda f: (f[2] is None, f[2] or 0))


def _ticks(most: int) -> list[int]:
    ticks = [t * 10**k for k in range(9) for t in (1, 3) if t * 10**k < 0.75 * most]
    return [*ticks, most]


def _data(race: StoredRace) -> str:
    units = race.question.unit.replace(" ", "_") + "s"
    rows = [[pair.first, pair.second, *one] for pair in race.sequences for one in pair.sets]
    return to_csv(["first", "second", units, "low", "high"], rows)
