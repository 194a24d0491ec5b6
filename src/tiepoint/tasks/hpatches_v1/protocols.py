# SPDX-License-Identifier: BSD-3-Clause
"""The rules of the 2016 evaluator, one switch each. All of them off is the protocol `exact`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from ...model.errors import UnknownNameError

PROTOCOLS = ("exact", "hbench-2016")
STEPS = {
    "normaliser": "divide by all that could be found",
    "ties": "expectation over random orders of ties",
    "text": "full precision instead of the text of the results file",
    "failures": "a failed descriptor is a miss",
    "averaging": "plain mean, query left out by identity",
}


def _quirk(step: str, tasks: str, about: str) -> Any:
    return field(default=True, metadata={"step": step, "tasks": tasks.split(), "about": about})


@dataclass(frozen=True)
class HbenchQuirks:
    """Every difference between `hbench-2016` (all True) and `exact`; see docs/tasks/hpatches-v1.md.

    >>> HbenchQuirks().divisor_q_plus_one, exact_rules().divisor_q_plus_one
    (True, False)
    """

    matching_normaliser_valid: bool = _quirk("normaliser", "matching", "divide by the right matches only")
    zero_without_match: bool = _quirk("normaliser", "matching", "0/0 of a pair without right match is 0")
    retrieval_normaliser_retrieved: bool = _quirk("normaliser", "retrieval", "divide by what the 50 hold")
    file_order: bool = _quirk(
        "ties", "classification matching retrieval", "equal distances stay in file order"
    )
    lowest_index_match: bool = _quirk("ties", "matching", "the first of equally near targets is the match")
    squared: bool = _quirk("text", "classification matching", "l2 distances are printed squared")
    single_precision: bool = _quirk("text", "classification matching", "distances are float32")
    six_decimals: bool = _quirk("text", "classification", "results are printed with %.6f")
    six_digits: bool = _quirk("text", "matching", "results are printed with %e, six digits after the point")
    roc_stops: bool = _quirk("failures", "classification", "the ROC curve ends at the last finite distance")
    nan_is_infinite: bool = _quirk(
        "failures", "classification", "off in 2016's first months: NaN ranked first"
    )
    both_infinite: bool = _quirk(
        "failures", "matching", "an infinite second neighbour makes the first infinite"
    )
    ratio_nan_first: bool = _quirk(
        "failures", "matching", "a ratio of 0/0 or Inf/Inf ranks before all others"
    )
    first_label_line: bool = _quirk("averaging", "matching", "only the first line of labels is read")
    balanced_first_negatives: bool = _quirk("averaging", "classification", "balanced: the first P negatives")
    headline_imbalanced: bool = _quirk("averaging", "classification", "AUC is reported on the full list")
    query_swapped_first: bool = _quirk(
        "averaging", "retrieval", "the query is swapped or written into place 1"
    )
    divisor_q_plus_one: bool = _quirk("averaging", "retrieval", "Q queries are averaged with Q + 1")


def exact_rules() -> HbenchQuirks:
    """No quirk at all, except the two that are no fault and that `exact` shares.

    A failure is an infinite distance, and the balanced list is the first P negatives, in both protocols.

    >>> exact_rules().file_order
    False
    """
    off = {f.name: False for f in fields(HbenchQuirks)}
    return HbenchQuirks(**off | {"nan_is_infinite": True, "balanced_first_negatives": True})


def rules_of(protocol: str) -> HbenchQuirks:
    """The switches of a protocol.

    >>> rules_of("hbench-2016") == HbenchQuirks()
    True
    """
    if protocol not in PROTOCOLS:
        raise UnknownNameError("protocol of HPatches v1", protocol, PROTOCOLS)
    return HbenchQuirks() if protocol == "hbench-2016" else exact_rules()


def convention_steps(task: str) -> list[tuple[str, HbenchQuirks]]:
    """From `hbench-2016` to `exact`, one kind of rule after another, for `task` (its last word).

    >>> [name.split(":")[0] for name, _ in convention_steps("retrieval")]
    ['hbench-2016', 'normaliser', 'ties', 'averaging']
    """
    rules, exact = HbenchQuirks(), exact_rules()
    steps = [("hbench-2016", rules)]
    for step, about in STEPS.items():
        names = [f.name for f in fields(rules) if f.metadata["step"] == step and task in f.metadata["tasks"]]
        changed = replace(rules, **{name: getattr(exact, name) for name in names})
        if changed != rules:
            rules = changed
            steps.append((f"{step}: {about}", rules))
    return steps
