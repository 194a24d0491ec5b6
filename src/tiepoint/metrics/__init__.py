# SPDX-License-Identifier: BSD-3-Clause
"""Evaluation metrics as pure functions on arrays."""

from .ranking.average_precision import average_precision, average_precision_of_lists
from .ranking.chance import chance_average_precision
from .ranking.curves import RankingCurve, precision_recall_curve, roc_curve
from .ranking.first_hit import half_tie_rank, reciprocal_rank
from .ranking.from_counts import average_precision_from_counts, fpr_at_recall_from_counts, roc_auc_from_counts
from .ranking.matching import expected_validity, ratio_dissimilarity
from .ranking.roc import fpr_at_recall, roc_auc

__all__ = [
    "RankingCurve",
    "average_precision",
    "average_precision_from_counts",
    "average_precision_of_lists",
    "chance_average_precision",
    "expected_validity",
    "fpr_at_recall",
    "fpr_at_recall_from_counts",
    "half_tie_rank",
    "precision_recall_curve",
    "ratio_dissimilarity",
    "reciprocal_rank",
    "roc_auc",
    "roc_auc_from_counts",
    "roc_curve",
]
