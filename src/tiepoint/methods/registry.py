# SPDX-License-Identifier: BSD-3-Clause
"""The registry of methods: one name may stand for one method in each family."""

from __future__ import annotations

from ..model.errors import InputError, UnknownNameError
from ..model.registry import PLUGGED, Entry, Registry

FAMILIES = ("patches", "keypoints", "dense")


class MethodRegistry(Registry):
    """Names by family: `sift` describes patches in one family and keypoints in another.

    Internally an entry is known as ``family/name``; that full form is accepted wherever a name is. A
    plug-in (entry point) belongs to every family: whether its object fits is seen when it is resolved.

    >>> r = MethodRegistry("method")
    >>> r.add("pi", "math:pi", "3.14…", family="patches")
    >>> r.add("pi", "math:tau", "6.28…", family="dense")
    >>> round(r.load("pi", family="dense"), 2), r.names("patches")
    (6.28, ['pi'])
    """

    def _key(self, name: str, family: str) -> str:
        """A name can be taken once in each family."""
        return f"{family}/{name}"

    def names(self, family: str | None = None) -> list[str]:
        """Known names, of one family (and the plug-ins) or of all."""
        return sorted({e.name for e in self if family in (None, e.family) or e.family == PLUGGED})

    def __contains__(self, name: str) -> bool:
        self._plug()
        return name in self._entries or any(e.name == name for e in self._entries.values())

    def entry(self, name: str, *, family: str | None = None) -> Entry:
        """The entry of `name` in `family`.

        Without a family the first of patches, keypoints, dense, plug-in that has the name. A name that
        exists only in another family is an error that says so.
        """
        self._plug()
        if name in self._entries:
            return self._entries[name]
        for wanted in (*FAMILIES, PLUGGED):
            if family in (None, wanted) or wanted == PLUGGED:
                found = self._entries.get(f"{wanted}/{name}")
                if found is not None:
                    return found
        elsewhere = sorted({e.family for e in self._entries.values() if e.name == name})
        if elsewhere:
            raise InputError(
                f"{self.what} {name!r} is for {' and '.join(elsewhere)}, and this task is for {family}; "
                f"known for {family}: {', '.join(self.names(family)) or 'none'}"
            )
        raise UnknownNameError(self.what, name, self.names(family))

    def load(self, name: str, *, family: str | None = None) -> object:
        """Import and return the object registered as `name` in `family`."""
        return self.imported(self.entry(name, family=family))

    def identity(self, cls: type) -> str:
        """What a class of this package is called in keys, wherever its file lies: ``patches/sift``.

        Its first registered name, in alphabetical order; what it says itself as `identity`, where it is not
        registered.

        >>> from tiepoint.methods.names import METHODS
        >>> METHODS.identity(METHODS.load("sift", family="patches"))
        'patches/sift'
        """
        target = f"{cls.__module__}:{cls.__qualname__}"
        names = sorted(key for key, entry in self._entries.items() if entry.target == target)
        return names[0] if names else str(getattr(cls, "identity", target))
