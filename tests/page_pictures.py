# SPDX-License-Identifier: BSD-3-Clause
"""Screenshots compared with small references, with tolerance.

Pages are drawn in the font of Matplotlib and compared at an eighth of their size. After a change, set
TIEPOINT_WRITE_REFERENCES=1 to write the references again, and look at them.
"""

from __future__ import annotations

import base64
import io
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

WRITE = os.environ.get("TIEPOINT_WRITE_REFERENCES") == "1"
HEIGHT, KEPT, COMPARED = 2600, 4, 8
"""Height in pixels up to which a page is compared; factors of reduction of references and comparisons."""
BLOCK = 8
MEAN, WORST = 6.0, 20.0
"""Largest mean difference of grey levels, over the page and over a block of 64 x 64 pixels of the page."""
VOLATILE = """
code, #runs, dl, td[data-label="at what cost"], .answers small { visibility: hidden !important; }
* { font-family: Pinned !important; animation: none !important; caret-color: transparent !important; }
"""


def difference(first: Image.Image, second: Image.Image) -> tuple[float, float]:
    """Return the mean difference of two pictures, and that of their most different block, in grey levels.

    Heights may differ by 2 %, as line breaks do. What only one picture has counts as different.
    """
    one, two = (np.asarray(p.convert("RGB"), np.float64) for p in (first, second))
    if one.shape[1] != two.shape[1] or abs(len(one) - len(two)) > 0.02 * max(len(one), len(two)) + 2:
        return 255.0, 255.0
    rows = min(len(one), len(two)) // BLOCK * BLOCK
    columns = one.shape[1] // BLOCK * BLOCK
    gap = np.abs(one[:rows, :columns] - two[:rows, :columns]).mean(axis=2)
    blocks = gap.reshape(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK).mean(axis=(1, 3))
    return float(gap.mean()), float(blocks.max())


def smaller(picture: Image.Image, factor: int) -> Image.Image:
    """Reduce a picture by an integer factor. Columns and rows that would be split at the end are cut off."""
    size = (picture.width // factor, max(1, picture.height // factor))
    box = (0, 0, size[0] * factor, size[1] * factor)
    return picture.convert("RGB").resize(size, Image.Resampling.BOX, box=box)


def whole(picture: Image.Image) -> Image.Image:
    """Cut a screenshot to whole pixels of the comparison."""
    return picture.crop((0, 0, *(n // COMPARED * COMPARED for n in picture.size)))


def pinned_font() -> str:
    from matplotlib import get_data_path

    path = Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    data = base64.b64encode(path.read_bytes()).decode()
    return f"@font-face {{ font-family: Pinned; src: url(data:font/ttf;base64,{data}); }}"


def drawn(
    browser: Any, address: str, width: int, theme: str, tall: int = HEIGHT, script: str = "0"
) -> tuple[Image.Image, list[str]]:
    """Return a picture of a page with its details open, and its console errors and foreign requests."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=True, reduced_motion="reduce"
    )
    page, problems = context.new_page(), []
    page.on("console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: problems.append(str(e)))
    local = ("file:", "data:", "blob:", address.partition("/task")[0][:21])
    page.on("request", lambda r: None if r.url.startswith(local) else problems.append(r.url))
    page.goto(address)
    page.add_style_tag(content=pinned_font() + VOLATILE)
    page.evaluate("document.querySelectorAll('.more').forEach(d => { d.open = true; })")
    page.evaluate("document.querySelectorAll('img').forEach(i => { i.loading = 'eager'; })")
    page.evaluate(
        "document.querySelectorAll('h1').forEach(h => { if (h.innerText[0] === '/') h.innerText = 'store'; })"
    )
    page.evaluate(script)
    page.evaluate("document.fonts.load('16px Pinned')")
    for _ in range(100):
        if page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)"):
            break
        time.sleep(0.1)
    tall = page.evaluate(f"Math.min(document.documentElement.scrollHeight, {tall})")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
    taken = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": width, "height": tall})
    context.close()
    return whole(Image.open(io.BytesIO(taken))), problems


def compare(taken: Image.Image, path: Path, folder: Path) -> None:
    """Compare a picture with its reference. Keep the picture in `folder`; write the reference if asked."""
    kept = smaller(taken, KEPT)
    if WRITE:
        path.parent.mkdir(exist_ok=True)
        kept.save(path, quality=85, method=6)
    with Image.open(path) as reference:
        mean, worst = difference(smaller(taken, COMPARED), smaller(reference, COMPARED // KEPT))
    taken.save(folder / path.with_suffix(".png").name)
    print(f"{path.name}: mean {mean:.2f}, worst block {worst:.1f}")
    assert mean <= MEAN, f"compare {folder} with {path}"
    assert worst <= WORST, f"compare {folder} with {path}"
