# SPDX-License-Identifier: BSD-3-Clause
"""Write the result of `choose` as HTML: its table, and pictures of the pairs on which methods differ most."""

from __future__ import annotations

import base64
import io
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..core.errors import InputError
from ..core.formatting import count_text
from ..formats.file_io import write_bytes
from ..run.choose.result import Choice, PairOutcome
from .choice_text import COLUMNS, advice, extent, run_command, table, trust, warnings
from .pictures.confirmed import confirmed_panels

QUALITY = 80


def save_choice(choice: Choice, path: str | Path, *, store: str | None = None) -> None:
    """Write a choice as an HTML file that needs no other file.

    Raises:
        InputError: The name does not end with ``.html``, or the file cannot be written.
    """
    check_page_name(path)
    write_bytes(Path(path).expanduser(), [choice_page(choice, store=store).encode()])


def check_page_name(path: str | Path) -> None:
    """Raise an error unless a file name ends with ``.html``."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path}: the page is an HTML file; choose a name that ends with .html")


def choice_page(choice: Choice, *, store: str | None = None) -> str:
    """Return a choice as an HTML page."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("tiepoint.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    css = (files("tiepoint.report") / "templates" / "report.css").read_text("utf-8")
    page: str = environment.get_template("choice.html").render(
        title="Which method for these images?",
        css=css,
        lead=f"{count_text(len(choice.candidates), 'method')} on "
        f"{count_text(len(choice.pairs), 'pair')} of {choice.images}, without ground truth.",
        advice=advice(choice),
        trust=trust(choice),
        extent=extent(choice),
        warnings=warnings(choice),
        columns=COLUMNS,
        rows=table(choice),
        leader=choice.leader,
        command=run_command(choice, store),
        pairs=[_pair(choice, key) for key in choice.most_different()],
        version=__version__,
    )
    return page


def _pair(choice: Choice, key: str) -> dict[str, Any]:
    """Return the template data of a pair: its names, and the picture of every method."""
    images = choice.pairs[key].pair.payload()[:2]
    shown = []
    for name in choice.order.methods:
        one = choice.outcomes[name][key]
        shown.append({"method": name, "text": _caption(one), "picture": _picture(images, one)})
    return {"names": " and ".join(key.split("|")), "methods": shown}


def _caption(one: PairOutcome) -> str:
    s = one.steadiness
    if s is None:
        return f"failed: {one.failure}"
    kept = "" if s.is_confirmed else f", not confirmed ({s.ungated:.2f} before the gate)"
    counts = f"{s.confirmed:.3g} of {s.matches} matches confirmed"
    return f"steady {one.steady:.2f}{kept}; {counts}; cover {s.cover:.2f}"


def _picture(images: Any, one: PairOutcome) -> str:
    """Return the picture of a method on a pair as a data URI."""
    from PIL import Image as Pillow

    share = np.zeros(0) if one.steadiness is None else one.steadiness.share
    drawn = confirmed_panels(images, one.points0, one.points1, share >= 0.5)
    buffer = io.BytesIO()
    Pillow.fromarray(drawn).save(buffer, format="WEBP", quality=QUALITY, method=4)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
