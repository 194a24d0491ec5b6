# SPDX-License-Identifier: BSD-3-Clause
"""Descriptions of tasks and metrics for tables, reports and intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Column = tuple[str, str]
"""Name of a score: metric and group."""
MAX_TABLE_COLUMNS = 10
"""Columns of a narrow table if the task does not specify its columns."""

UNITS = {
    "fraction": (100.0, "%", "percent"),
    "px": (1.0, "px", "pixels"),
    "ms": (1.0, "ms", "milliseconds"),
    "deg": (1.0, "°", "degrees"),
    "units": (1.0, "units", "units of the truth"),
    "s": (1.0, "s", "seconds"),
    "MiB": (1.0, "MiB", "mebibytes"),
    "count": (1.0, "", "a count"),
    "level": (1.0, "", "a level"),
}
"""How a stored value is displayed, by its unit: factor, symbol and name."""
POOLED_LIST = "it ranks the pairs of all scenes in one list, so what a unit adds depends on all others"
COMPETING = "queries compete with distractors of all scenes, so one unit needs the features of all"
METHOD_QUERIES = "its queries are the keypoints that a method finds, so the weights depend on the method"
AP_OF_PAIRS = "average precision of pairs ranked by descriptor distance, correct pairs among incorrect ones"
AUC_OF_PAIRS = "probability that a correct pair is closer than an incorrect one (area under the ROC curve)"
FPR_OF_PAIRS = "share of incorrect pairs accepted at the distance that accepts 95 % of the correct ones"
HPATCHES = """@inproceedings{balntas2017hpatches,
  author    = {Vassileios Balntas and Karel Lenc and Andrea Vedaldi and Krystian Mikolajczyk},
  title     = {{HPatches}: A Benchmark and Evaluation of Handcrafted and Learned Local Descriptors},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition (CVPR)},
  year      = {2017}
}"""
BOJANIC = """@inproceedings{bartol2020benchmark,
  author    = {Kristijan Bartol and David Bojani{\\'c} and Tomislav Pribani{\\'c} and
               Tomislav Petkovi{\\'c} and Yago {Diez Donoso} and Joaquim {Salvi Mas}},
  title     = {On the Comparison of Classic and Deep Keypoint Detector and Descriptor Methods},
  booktitle = {International Symposium on Image and Signal Processing and Analysis (ISPA)},
  year      = {2019},
  note      = {arXiv:2007.10000}
}"""
WORKBENCH = """@misc{sossi2026workbench,
  author = {F. Sossi},
  title  = {{DescriptorWorkbench}},
  year   = {2026},
  note   = {Software}
}"""
TSS = """@inproceedings{taniai2016joint,
  author    = {Tatsunori Taniai and Sudipta N. Sinha and Yoichi Sato},
  title     = {Joint Recovery of Dense Correspondence and Cosegmentation in Two Images},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition (CVPR)},
  pages     = {4246--4255},
  year      = {2016}
}"""
PROPOSAL_FLOW = """@inproceedings{ham2016proposal,
  author    = {Bumsub Ham and Minsu Cho and Cordelia Schmid and Jean Ponce},
  title     = {Proposal Flow},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition (CVPR)},
  year      = {2016}
}"""

WXBS = """@inproceedings{mishkin2015wxbs,
  author    = {Dmytro Mishkin and Jiri Matas and Michal Perdoch and Karel Lenc},
  title     = {{WxBS}: Wide Baseline Stereo Generalizations},
  booktitle = {British Machine Vision Conference (BMVC)},
  year      = {2015}
}"""
EVD = """@article{mishkin2015mods,
  author  = {Dmytro Mishkin and Jiri Matas and Michal Perdoch},
  title   = {{MODS}: Fast and Robust Method for Two-View Matching},
  journal = {Computer Vision and Image Understanding},
  year    = {2015}
}"""
ASIFT = """@article{morel2009asift,
  author  = {Jean-Michel Morel and Guoshen Yu},
  title   = {{ASIFT}: A New Framework for Fully Affine Invariant Image Comparison},
  journal = {SIAM Journal on Imaging Sciences},
  volume  = {2},
  number  = {2},
  pages   = {438--469},
  year    = {2009}
}"""
SPAIR = """@article{min2019spair,
  author  = {Juhong Min and Jongmin Lee and Jean Ponce and Minsu Cho},
  title   = {{SPair-71k}: A Large-scale Benchmark for Semantic Correspondence},
  journal = {arXiv:1908.10543},
  year    = {2019}
}"""


@dataclass(frozen=True)
class MetricInfo:
    """Description of a metric for tables and reports.

    `words` describe the metric in a short phrase, without its unit and direction. If the phrase depends on
    the group of a score (for example on a threshold), `words` is a function of the group's parts. `short` is
    the detail, usually a threshold, that the metric name does not state for the score `all`. `better` is
    `higher`, `lower`, or None for a metric that only describes the data. `title` is the display name, if the
    one derived from the metric name is unclear. `threshold_unit` is the unit of groups such as `threshold=5`.

    >>> error = MetricInfo("mean distance from the true place", unit="px", better="lower")
    >>> error.sentence()
    'mean distance from the true place; pixels, lower is better'
    """

    words: str | Callable[[Mapping[str, str]], str] = ""
    unit: str = "fraction"
    better: str | None = "higher"
    short: str = ""
    title: str = ""
    threshold_unit: str = "%"

    @property
    def lower(self) -> bool:
        """Whether lower values are better."""
        return self.better == "lower"

    @property
    def bounded(self) -> bool | None:
        """Whether scores are between 0 and 1. None for fractions, for which the scene values decide."""
        return None if self.unit == "fraction" else False

    @property
    def scale(self) -> tuple[float, str]:
        """Factor and symbol for tables and axes. Fractions are shown in percent, other units unchanged.

        >>> MetricInfo().scale, MetricInfo(unit="count").scale
        ((100.0, '%'), (1.0, ''))
        """
        return UNITS[self.unit][:2]

    def sentence(self, group: str = "all") -> str:
        """Return a description with unit and direction. Empty if the metric has no `words`."""
        parts = dict(part.partition("=")[::2] for part in group.split(","))
        words = self.words if isinstance(self.words, str) else self.words(parts)
        if not words:
            return ""
        direction = "" if self.better is None else f", {self.better} is better"
        return f"{words}; {UNITS[self.unit][2]}{direction}"

    def within_range(self, low: float | None, high: float | None) -> tuple[float | None, float | None]:
        """Clip an interval to the range of the metric: at least 0, and at most 1 for fractions.

        >>> MetricInfo().within_range(0.9, 1.02), MetricInfo(unit="px").within_range(-3.0, 5.0)
        ((0.9, 1.0), (0.0, 5.0))
        """
        if low is not None:
            low = max(0.0, low)
        if high is not None and self.unit == "fraction":
            high = min(1.0, high)
        return low, high


def count(words: str) -> MetricInfo:
    """Return the metric description of a count, for which neither direction is better."""
    return MetricInfo(words, unit="count", better=None)


@dataclass(frozen=True)
class TaskInfo:
    """Description of a task for tables and reports.

    Attributes:
        sentence: The question that the task answers.
        headline: Metric and group of the score by which methods are sorted.
        metrics: Every metric that the scores of the task may contain.
        columns: Metrics of a narrow table in order. If empty, the table shows all scores of group `all`.
        choose_columns: Function that selects the columns of a narrow table from those of a run. If None, the
            table uses `columns`.
        replacements: For a column whose score has a caution, the column that is shown instead if possible.
        summary_metrics: Metrics shown for each run in a list of runs. The default is the headline.
        other_names: Alternative metric names, mapped to the names used here.
        table_note: Details that the column names do not state.
        cite: BibTeX entries to cite.
        licence: Licence terms of the data.
        title: Display name. The default is the name of the task.
        protocol_versions: Versions of protocols whose comparison has changed. The first version is 1.
            Increase it if records change: tiepoint then recomputes them and marks older runs. If only the
            computation of scores from records changes, increase `SCORING` instead.
        writing_options: Options that only affect written result files.
        printing_options: Options that only affect which score is printed first.
        not_raceable: Reason why methods cannot be raced on any score, for tasks without `HasUnitValues`.
        other_headlines: Scores by which runs without the headline are sorted, such as imported results.
        pictures_in_reports: Whether the HTML report may contain images of the dataset. False if the licence
            does not permit publishing them.
    """

    sentence: str = ""
    headline: Column = ("", "all")
    metrics: Mapping[str, MetricInfo] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    choose_columns: Callable[[Sequence[Column]], list[Column]] | None = None
    replacements: Mapping[Column, Column] = field(default_factory=dict)
    summary_metrics: tuple[str, ...] = ()
    other_names: Mapping[str, str] = field(default_factory=dict)
    table_note: str = ""
    cite: tuple[str, ...] = ()
    licence: str = ""
    title: str = ""
    protocol_versions: Mapping[str, int] = field(default_factory=dict)
    writing_options: tuple[str, ...] = ()
    printing_options: tuple[str, ...] = ()
    not_raceable: str = "the task does not state unit values (`HasUnitValues`)"
    other_headlines: tuple[Column, ...] = ()
    pictures_in_reports: bool = True


def metric_info(info: TaskInfo, metric: str) -> MetricInfo:
    """Return the description of a metric. A metric without a description is displayed as a fraction."""
    return info.metrics.get(metric, MetricInfo())


def metric_label(info: TaskInfo, metric: str, group: str) -> str:
    """Return a metric name and the threshold that its score `all` uses, such as ``flow_accuracy T5``."""
    short = metric_info(info, metric).short if "threshold" not in group and "alpha" not in group else ""
    return f"{metric} {short}" if short else metric


def score_title(info: TaskInfo, metric: str, group: str = "all") -> str:
    """Return the display name of a score with its threshold, such as ``area under curve at 10°``."""
    facts = metric_info(info, metric)
    title = facts.title or metric_title(metric)
    part = group_title(group, facts.threshold_unit) or facts.short.replace("@", "at ")
    separator = " " if part.startswith("at ") else ", "
    return f"{title}{separator}{part}" if part else title


def headline_column(info: TaskInfo, columns: Sequence[Column]) -> Column | None:
    """Return the column by which methods are sorted. None if there are no columns."""
    overall = [c for c in columns if c[1] == "all"]
    chosen = [c for c in (info.headline, *info.other_headlines) if c in columns]
    return next(iter([*chosen, *overall, *columns]), None)


def table_columns(info: TaskInfo, columns: Sequence[Column]) -> list[Column]:
    """Return the columns of a narrow table, selected from the columns of a run."""
    if info.choose_columns is not None and (chosen := info.choose_columns(columns)):
        return chosen
    overall = [c for c in columns if c[1] == "all"] or list(columns)
    listed = [c for metric in info.columns for c in overall if c[0] == metric]
    return listed or overall[:MAX_TABLE_COLUMNS]


def summary_metrics(info: TaskInfo, metrics: Sequence[str]) -> tuple[str, ...]:
    """Return the metrics shown for each run in a list, selected from those of group `all`."""
    first = headline_column(info, [(metric, "all") for metric in metrics])
    return info.summary_metrics or (() if first is None else (first[0],))


def protocol_version(info: TaskInfo, protocol: str) -> int:
    """Return the version of a protocol."""
    return info.protocol_versions.get(protocol, 1)


def identity_options(info: TaskInfo, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are part of a run's identity: all except those that affect only the display."""
    excluded = (*info.writing_options, *info.printing_options)
    return {name: value for name, value in options.items() if name not in excluded}


FIRST_PATCHES = MetricInfo(
    "share of reference patches whose nearest target patch is the correct one; one of m ties counts 1/m"
)


def ap_of_matches(by: str, weights: str = "") -> MetricInfo:
    """Return the description of an average precision over nearest neighbours that are ranked by `by`.

    `weights` states which groups of image pairs have equal weight in the mean.
    """
    return MetricInfo(
        f"average precision of the nearest-neighbour matches ranked by {by}, every reference patch in the "
        f"denominator, mean over image pairs{weights}"
    )


FAMILIES = {
    "patches": "Patches",
    "keypoints": "Keypoints",
    "pairs": "Image pairs",
    "dense": "Dense flow",
    "sfm": "Reconstruction",
}
"""Families of tasks, in display order."""

KINDS = {"i": "illumination", "v": "viewpoint"}
"""Display names of scene kinds with one-letter names."""

METRICS = {
    "aepe": "end-point error",
    "ap": "average precision",
    "ap_ratio": "average precision by ratio",
    "area": "area under recall",
    "auc": "area under curve",
    "fl": "outliers (Fl)",
    "flow_auc": "flow accuracy, all thresholds",
    "fpr95": "false positives at 95 % recall",
    "homography_auc": "area under corner errors",
    "iou": "mask overlap (IoU)",
    "maa": "mean average accuracy",
    "map": "mean average precision",
    "map_image": "mean AP, same sequence",
    "map_patch": "mean AP, same patch",
    "map_query": "mean 1/rank",
    "map_ratio": "mean AP by ratio",
    "mma": "matching accuracy",
    "mrr": "mean 1/rank",
    "pck": "correct keypoints (PCK)",
    "success_rate": "first answer correct",
    "true_map_macro_by_scene": "mean AP by scene",
    "true_map_micro": "mean AP by query",
    "true_map_micro_including_zeros": "mean AP by query, misses as 0",
    "true_map_macro_by_scene_including_zeros": "mean AP by scene, misses as 0",
    "viewpoint_map": "mean AP, viewpoint",
    "illumination_map": "mean AP, illumination",
}
"""Display names of metrics that are shared or unclear. A task may override them."""

_LETTERS = {
    "ap": "AP",
    "auc": "AUC",
    "fpr95": "FPR95",
    "iou": "IoU",
    "map": "mAP",
    "mma": "MMA",
    "pck": "PCK",
}
_UNITS = ("px", "deg", "ms", "s")


def metric_title(metric: str) -> str:
    """Return the display name of a metric.

    The name comes from the table of titles. Otherwise it is the metric name with spaces and without its unit.

    >>> metric_title("success_rate"), metric_title("localisation_error_px"), metric_title("mma_of_pairs")
    ('first answer correct', 'localisation error', 'MMA of pairs')
    """
    if metric in METRICS:
        return METRICS[metric]
    words = metric.split("_")
    words = words[:-1] if len(words) > 1 and words[-1] in _UNITS else words
    return " ".join(_LETTERS.get(w, w) for w in words)


_SHORT = {
    "ap_ratio": "AP by ratio",
    "map_patch": "mAP",
    "map_query": "mean 1/rank",
    "mrr": "MRR",
    "maa": "mAA",
    "aepe": "AEPE",
    "true_map_macro_by_scene": "mAP by scene",
    "true_map_micro": "mAP by query",
}


def short_title(metric: str) -> str:
    """Return a short name of a metric for a narrow column.

    >>> short_title("map"), short_title("success_rate"), short_title("localisation_error_px")
    ('mAP', 'success rate', 'localisation error')
    """
    words = metric.split("_")
    words = words[:-1] if len(words) > 1 and words[-1] in _UNITS else words
    return _SHORT.get(metric) or " ".join(_LETTERS.get(w, w) for w in words)


def group_title(group: str, threshold_unit: str = "%") -> str:
    """Return a group of scores as text, thresholds with their unit. Empty for the group `all`.

    >>> group_title("all"), group_title("negatives=inter,noise=hard"), group_title("tau_px=5")
    ('', 'inter negatives, hard', 'at 5 px')
    """
    return "" if group == "all" else ", ".join(_part(part, threshold_unit) for part in group.split(","))


def kind_title(kind: str) -> str:
    """Return the display name of a scene kind: `v` is "viewpoint". Unknown kinds are unchanged.

    >>> kind_title("v"), kind_title("JODS")
    ('viewpoint', 'JODS')
    """
    return KINDS.get(kind, kind)


def _part(part: str, threshold_unit: str) -> str:
    key, _, value = part.partition("=")
    made = {
        "noise": value,
        "subset": value,
        "kind": kind_title(value),
        "negatives": f"{value} negatives",
        "tau_px": f"at {value} px",
        "threshold_px": f"at {value} px",
        "threshold_deg": f"at {value}°",
        "threshold": f"at {value} {threshold_unit}",
        "alpha": f"at {value} of the reference length",
    }
    return made.get(key, f"{key.replace('_', ' ')} {value}".strip())
