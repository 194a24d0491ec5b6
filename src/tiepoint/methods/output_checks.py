# SPDX-License-Identifier: BSD-3-Clause
"""Checks of a method's output: shape, row count, type, and rows with NaN, infinity or only zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.plugins import check_distance


@dataclass(frozen=True)
class BadRows:
    """Ascending row numbers of rows with NaN, rows with infinity, and rows of zeros."""

    nan: NDArray[np.int64]
    infinite: NDArray[np.int64]
    zero: NDArray[np.int64]

    def problems(self, where: str, *, zero: bool = True) -> list[str]:
        """Return a message for each kind of bad row, with the first row number.

        `zero` includes rows of zeros.
        """
        kinds = [("NaN", self.nan), ("an infinite value", self.infinite)] + [("only zeros", self.zero)] * zero
        return [
            f"{where}: {len(rows)} descriptors have {what} (rows {_some(rows)})"
            for what, rows in kinds
            if len(rows)
        ]


def _some(rows: NDArray[np.int64]) -> str:
    return ", ".join(map(str, rows[:8].tolist())) + (", …" if len(rows) > 8 else "")


def find_bad_rows(values: NDArray[Any]) -> BadRows:
    """Find rows with NaN, rows with infinity but no NaN, and rows of zeros.

    >>> b = find_bad_rows(np.array([[1, 2], [np.nan, 0], [0, 0], [np.inf, 1]], np.float32))
    >>> b.nan.tolist(), b.infinite.tolist(), b.zero.tolist()
    ([1], [3], [2])
    """
    none = np.empty(0, np.int64)
    if values.dtype.kind != "f":
        return BadRows(none, none, np.flatnonzero(~values.any(axis=1)))
    finite = np.isfinite(values).all(axis=1)
    zero = np.flatnonzero(finite & ~values.any(axis=1))
    suspects = np.flatnonzero(~finite)
    has_nan = np.isnan(values[suspects]).any(axis=1)
    return BadRows(suspects[has_nan], suspects[~has_nan], zero)


Array = NDArray[Any]
KEEP_ZEROS = "keep-zeros"
ON_BAD = ("error", "miss", KEEP_ZEROS)


def check_on_bad(on_bad: str, distance: str, name: str) -> None:
    """Raise `InputError` if `on_bad` is unknown or does not apply to descriptors of this distance.

    >>> check_on_bad("keep-zeros", "cosine", "mine")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: mine is compared by cosine, which is undefined for zero vectors; use \
`on_bad="miss"`
    """
    if on_bad not in ON_BAD:
        raise InputError(f"unknown value {on_bad!r} of `on_bad`; choose one of {', '.join(ON_BAD)}")
    if on_bad == KEEP_ZEROS and distance == "cosine":
        raise InputError(
            f'{name} is compared by cosine, which is undefined for zero vectors; use `on_bad="miss"`'
        )


def check_descriptors(
    returned: Any,
    *,
    rows: int,
    distance: str,
    where: str,
    on_bad: str = "error",
    zero_rows_are_valid: bool = False,
    keep_nan: bool = False,
) -> dict[str, Array]:
    """Return descriptors as arrays ``values`` (rows, d) and, if some failed, ``valid`` (rows,).

    `returned` is an array or a pair (array, valid mask). Row i belongs to patch i, so a wrong row count is
    always an error. A row is bad if it contains NaN or infinity, or if all values are zero. (A zero vector
    has no direction, and two blank patches would match perfectly.) `on_bad` selects what happens to bad rows:

    * ``error``, the default: raise an error.
    * ``miss``: count them as failures, with values zero and ``valid`` False.
    * ``keep-zeros``: count rows with NaN or infinity as failures. A zero row is a normal descriptor, as in
      older tools.

    Rows that the method marks as failed are always failures. With `keep_nan`, other failed rows retain NaN
    and infinity, because some programs compare them. For `hamming`, a zero row is a normal bit string, and
    boolean arrays are packed, eight bits per byte.

    >>> check_descriptors([[1, 2], [3, 4]], rows=2, distance="l2", where="a/ref")["values"].dtype
    dtype('float32')
    >>> check_descriptors(np.ones((3, 4)), rows=2, distance="l2", where="a/ref")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: a/ref: 3 descriptors for 2 patches, found float64 (3, 4); return one \
row for every patch
    """
    check_distance(distance, where)
    given, claimed = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, None)
    values = _two_dimensional(given, rows, where)
    values = _packed(values, where) if distance == "hamming" else _real(values, where)
    if distance == "masked_l1" and values.shape[1] % 2:
        raise InputError(
            f"{where}: masked_l1 needs one mask column for every value column, found "
            f"{values.shape[1]} columns; return an even number"
        )
    valid = _claimed_mask(claimed, rows, where)
    looked_at = values if valid.all() else np.where(valid[:, None], values, values.dtype.type(1))
    found = _bad_rows(looked_at, distance, zero_rows_are_valid)
    if on_bad == KEEP_ZEROS:
        found = BadRows(found.nan, found.infinite, np.empty(0, np.int64))
    problems = found.problems(where)
    if problems and on_bad == "error":
        keep = ', or keep zero rows as vectors with `on_bad="keep-zeros"`' if len(found.zero) else ""
        seen = f"; {_range(looked_at)}" if len(found.nan) + len(found.infinite) else ""
        raise InputError(
            f'{"; ".join(problems)}{seen}; correct them, or count them as misses with `on_bad="miss"`'
            + (keep if distance != "cosine" else "")
        )
    for rows_of_kind in (found.nan, found.infinite, found.zero):
        valid[rows_of_kind] = False
    if valid.all():
        return {"values": values}
    shown = valid.copy()
    if keep_nan:
        shown[found.nan] = shown[found.infinite] = True
    return {"values": np.where(shown[:, None], values, values.dtype.type(0)), "valid": valid}


def from_tensor(given: Any) -> Any:
    """Return a torch tensor on any device as an array, bfloat16 as float32. Return other objects unchanged.

    Raises:
        MaskedError: If a masked array has masked values, which a conversion would expose.

    >>> from_tensor([1, 2])
    [1, 2]
    """
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise MaskedError
    if not hasattr(given, "detach"):
        return given
    tensor = given.detach()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).cpu().numpy()


class MaskedError(TypeError):
    """Raised if a method returns a masked array with masked values."""

    def __str__(self) -> str:
        return "it is a masked array, whose mask would be lost; return valid values only, or a validity mask"


def output_array(given: Any, where: str, ragged: str) -> Array:
    """Return the output of a method as an array.

    If rows differ in length, raise an error with text `ragged`.
    """
    try:
        return np.asarray(from_tensor(given))
    except ValueError as e:
        raise InputError(f"{where}: {ragged}") from e
    except Exception as e:  # a user's object may raise any exception
        raise InputError(
            f"{where}: the return value is not an array ({type(e).__name__}: {e}); return an array"
        ) from e


def _two_dimensional(given: Any, rows: int, where: str) -> Array:
    if given is None:
        raise InputError(f"{where}: the method returned None; return an array with one row per patch")
    values = output_array(given, where, "descriptors differ in length; all rows need the same dimension")
    if values.dtype == object or values.dtype.kind not in "biuf":
        raise InputError(f"{where}: descriptors must be numbers, found dtype {values.dtype}")
    if values.ndim != 2:
        raise InputError(
            f"{where}: descriptors must have shape (n, d), found {values.dtype} {values.shape}; return one "
            "row for every patch"
        )
    if len(values) != rows:
        raise InputError(
            f"{where}: {len(values)} descriptors for {rows} patches, found {values.dtype} {values.shape}; "
            "return one row for every patch"
        )
    if values.shape[1] == 0:
        raise InputError(
            f"{where}: descriptors have no columns ({values.dtype} {values.shape}); return at least "
            "one value per patch"
        )
    return values


def _range(values: Array) -> str:
    """Return the minimum and maximum of the finite values as text.

    >>> _range(np.array([0.5, np.inf, 2.0]))
    'finite values are from 0.5 to 2'
    """
    finite = values[np.isfinite(values)]
    return (
        f"finite values are from {finite.min():g} to {finite.max():g}"
        if finite.size
        else "no value is finite"
    )


def _packed(values: Array, where: str) -> Array:
    if values.dtype == bool:
        return np.packbits(values, axis=1)
    if values.dtype != np.uint8:
        raise InputError(
            f"{where}: hamming needs packed bits (uint8) or bools, found {values.dtype}; {_range(values)}"
        )
    if values.size >= 256 and values.max() == 1:
        raise InputError(
            f"{where}: hamming descriptors seem to store one bit per byte, found uint8; {_range(values)}; "
            "return bool, or use numpy.packbits"
        )
    return _copied(values)


def _real(values: Array, where: str) -> Array:
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    kind = values.dtype
    if kind in (np.float32, np.float64, np.uint8):
        return _copied(values)
    if kind.kind == "f" and kind.itemsize > 8:
        return values.astype(np.float64)
    if kind.kind in "iu" and values.size and max(abs(int(values.min())), abs(int(values.max()))) > 1 << 24:
        return values.astype(np.float64)
    return values.astype(np.float32)


def _copied(values: Array) -> Array:
    """Return a contiguous copy: a method may write its next result into the same array."""
    return np.array(values, order="C")


def _claimed_mask(claimed: Any, rows: int, where: str) -> NDArray[np.bool_]:
    if claimed is None:
        return np.ones(rows, bool)
    mask = output_array(claimed, f"{where}: the validity mask", "rows differ in length")
    if mask.shape != (rows,) or mask.dtype != bool:
        raise InputError(
            f"{where}: the validity mask has {mask.dtype} {mask.shape}; return bool of shape ({rows},)"
        )
    return mask.copy()


def _bad_rows(values: Array, distance: str, zero_rows_are_valid: bool) -> BadRows:
    none = np.empty(0, np.int64)
    if distance == "hamming":
        return BadRows(none, none, none)
    found = find_bad_rows(values)
    if distance == "masked_l1":
        # zero values are valid, but a row whose mask is all zero is not
        zero = np.flatnonzero(~values[:, values.shape[1] // 2 :].any(axis=1))
    else:
        zero = none if zero_rows_are_valid else found.zero
    return BadRows(found.nan, found.infinite, zero)
