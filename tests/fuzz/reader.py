"""What is fuzzed: a reader, the valid files it starts from, and how to reach what checksums protect."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Shell(NamedTuple):
    """How a file is taken apart and put together again with its checksums right.

    `parts` gives what is inside, `whole` the file with other things inside. Without it nearly all mutations
    of an archive or a PNG end at the first checksum.
    """

    parts: Callable[[bytes], list[bytes]]
    whole: Callable[[bytes, Sequence[bytes]], bytes]


@dataclass(frozen=True)
class Reader:
    """One reader.

    `seeds` makes valid files or folders in an empty folder, small ones. `read` reads one as a user's command
    would and returns what it read; all arrays of it are touched. `shells` are by file name ending. `needs` is
    a package without which the reader is left out.
    """

    name: str
    seeds: Callable[[Path], list[Path]]
    read: Callable[[Path], object]
    shells: tuple[tuple[str, Shell], ...] = ()
    needs: str = ""

    def shell(self, name: str) -> Shell | None:
        """The shell of a file."""
        return next((shell for ending, shell in self.shells if name.endswith(ending)), None)

    @property
    def possible(self) -> bool:
        """Whether the package it needs is there."""
        return not self.needs or importlib.util.find_spec(self.needs) is not None
