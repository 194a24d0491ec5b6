# SPDX-License-Identifier: BSD-3-Clause
"""Choose a method for images without ground truth, from Python."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from ..run.choose.result import Choice


@dataclass(frozen=True)
class ChoiceResult:
    """Result of a choice. ``str()`` recommends a method and states how reliable that is.

    Attributes:
        choice: Full result: outcomes by method and pair, order of the methods, pairs.
    """

    choice: Choice

    @property
    def leader(self) -> str | None:
        """Method to use. None if no method finds consistent matches on any pair."""
        return self.choice.leader

    @property
    def level(self) -> Sequence[str]:
        """Methods that are not distinguished from the leader on these pairs."""
        return self.choice.order.level

    @property
    def steady(self) -> Mapping[str, float]:
        """Mean steadiness of each method over the pairs, 0 to 1: how stable its two-view models are."""
        return self.choice.order.scores

    @property
    def warnings(self) -> list[str]:
        """Warnings about unusual images, pairs or matches."""
        from ..report.choice_text import warnings as unusual

        return unusual(self.choice)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per method, in order."""
        import pandas as pd

        return pd.DataFrame(self.choice.to_dict()["methods"])

    def save(self, path: str | Path) -> None:
        """Write an HTML page with the table and pictures of the pairs on which the methods differ most."""
        from ..report.choice_page import save_choice

        save_choice(self.choice, path)

    def __str__(self) -> str:
        from ..report.choice_text import extent, sentences

        lines = sentences(self.choice)
        return "\n".join(lines if self.leader is None else [extent(self.choice), *lines])


def choose(
    methods: Sequence[Any],
    *,
    images: str | Path,
    pairs: str | Path | None = None,
    limit: int | None = None,
    store: str | Path | None = None,
    device: str = "cpu",
    progress: bool = True,
) -> ChoiceResult:
    """Compare methods on your images without ground truth; see docs/choose.md.

    Matches have the same cache keys as those of `tiepoint.evaluate`. No run is stored, because there is no
    score.

    Args:
        methods: Names or objects, at least two. All sparse or all dense.
        images: Folder of images.
        pairs: List of pairs; by default, pairs are sampled from the folder.
        limit: Number of pairs; default 30, or all pairs of a list.
        store: Folder or database URL; default ``tiepoint-store`` in the current folder.
        device: Device of learned methods.
        progress: Whether to show progress bars if standard error is a terminal.

    Returns:
        A `ChoiceResult`: ``.leader``, ``.level``, ``.to_frame()``, ``.save("choice.html")``.
    """
    from ..cli.shell.console import bars_on_a_terminal
    from ..run.choose.engine import ChoiceRequest, choose_method
    from ..store.store import Store

    if isinstance(methods, str) or not isinstance(methods, Sequence):
        raise InputError(f"`methods` is {methods!r}; expected a list of methods")
    listed = None if pairs is None else Path(pairs).expanduser()
    request = ChoiceRequest(tuple(methods), Path(images).expanduser(), listed, limit, device)
    with Store.open(store, later=True) as opened, bars_on_a_terminal(progress) as drawn:
        found = ChoiceResult(choose_method(request, opened, drawn, report=warnings.warn))
    for message in found.warnings:
        warnings.warn(message, UserWarning, stacklevel=2)
    return found
