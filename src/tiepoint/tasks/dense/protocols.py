# SPDX-License-Identifier: BSD-3-Clause
"""Flow conventions of each dense protocol."""

from __future__ import annotations

from ...geometry.flow.resize import FlowRule

RULES = {
    "exact": FlowRule(),
    "tss-cpp": FlowRule(
        "opencv",
        first_pixel=0,
        closed_px=20,
        closed_share=0,
        unknown_error_px=1000,
        double_factors=True,
        both_unknown=True,
    ),
    "tss-matlab": FlowRule("imresize", first_pixel=1, closed_px=20, closed_share=0, lenient=True),
}
"""Conventions for resizing, sampling and comparing flows, by protocol."""
