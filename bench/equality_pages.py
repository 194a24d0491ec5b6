# SPDX-License-Identifier: BSD-3-Clause
"""Structure of HTML pages and pixels of pictures, for snapshots of `equality.py`."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote

from equality_masks import mask
from equality_snapshot import Place, digest

WORD_ATTRIBUTES = frozenset({"title", "aria-label", "alt", "placeholder", "content", "summary"})
"""Attributes whose text is wording."""
CELLS = frozenset({"td", "th", "code", "pre", "text", "b", "option"})
"""Elements whose numbers and names are values."""
SILENT = frozenset({"script", "style"})


def pixels(data: bytes) -> str:
    """Return mode, size and hash of the pixels of a picture, whatever its encoding."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        image.load()
        return f"{image.mode} {image.width}x{image.height} {digest(image.tobytes())[:32]}"


def drawing(data: bytes) -> str:
    """Return the hash of an SVG drawing, without wording in title and description elements."""
    text = mask(data.decode("utf-8", "replace"), durations=True)
    text = re.sub(r"<(title|desc)\b.*?</\1>|<!--.*?-->", "", text, flags=re.DOTALL)
    return f"svg {digest(text.encode())[:32]}"


def picture(data: bytes, kind: str) -> str:
    """Return the pixel hash of a picture, or the drawing hash of an SVG file."""
    return drawing(data) if "svg" in kind or data.lstrip()[:4] in (b"<svg", b"<?xm") else pixels(data)


def is_value(text: str) -> bool:
    """Return whether a cell holds numbers or a name instead of a phrase."""
    words = re.findall(r"[A-Za-z]{3,}", text)
    return (bool(re.search(r"\d", text)) and len(words) <= 1) or " " not in text


class Page(HTMLParser):
    """Parser that separates tags and numbers of a page from its wording."""

    def __init__(self, place: Place) -> None:
        super().__init__(convert_charrefs=True)
        self.place = place
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.pictures: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the tag with its attributes; wording and embedded pictures go elsewhere."""
        kept = []
        for name, value in attrs:
            text = mask(self.place.plain(value or ""), durations=True)
            if name in WORD_ATTRIBUTES:
                self.texts.append(f"{name}: {text}")
                kept.append(name)
            elif text.startswith("data:") and "," in text and len(text) > 6:
                head, _, body = (value or "").partition(",")
                data = base64.b64decode(body) if "base64" in head else unquote(body).encode()
                self.pictures.append(picture(data, head))
                kept.append(f"{name}=data")
            else:
                kept.append(f'{name}="{text}"')
        self.tags.append(f"<{' '.join([tag, *kept])}>")
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Keep the end of an element."""
        self.tags.append(f"</{tag}>")
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        """Sort a text into cells, wording and scripts."""
        text = " ".join(mask(self.place.plain(data), durations=True).split())
        if not text:
            return
        inside = self._open[-1] if self._open else ""
        if inside in SILENT:
            self.scripts.append(f"{inside} {digest(data.encode())[:16]}")
        elif CELLS & set(self._open[-3:]) and is_value(text):
            self.cells.append(text)
        else:
            self.texts.append(text)


def page_parts(place: Place, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values (tags, cells, pictures) and the words (texts, scripts) of a page."""
    page = Page(place)
    page.feed(text)
    page.close()
    values = {"html tags": page.tags, "html cells": page.cells, "pixels": page.pictures}
    return values, {"texts": page.texts, "scripts": page.scripts}
