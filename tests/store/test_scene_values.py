"""Scene values keep every bit, equal tables are written once, and a damaged file is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import StoreError
from tiepoint.core.scores import PooledBins, SceneValues, Score
from tiepoint.store.scene_values import ValueStore
from tiepoint.store.store import Store

SCENES, KINDS = ("i_a", "v_b", "v_ü"), ("i", "v", "v")


def _cells(seed: int = 0) -> np.ndarray:
    cells = np.random.default_rng(seed).normal(size=(6, 3))
    cells[0, 0], cells[1, 1], cells[2, 2] = np.nan, -0.0, np.inf
    return cells


def _bins(statistic: str = "ap", also: tuple[PooledBins, ...] = ()) -> PooledBins:
    negatives = np.array([[0, 1, 0, 7], [2, 2, 1, 2**40]], np.int64)
    return PooledBins(SCENES, KINDS, np.arange(6.0).reshape(3, 2), negatives, statistic, also)


def _same(a: SceneValues | PooledBins, b: SceneValues | PooledBins) -> None:
    assert type(a) is type(b)
    for name, value in vars(a).items():
        other = getattr(b, name)
        if isinstance(value, np.ndarray):
            assert (other.dtype, other.shape, other.tobytes()) == (value.dtype, value.shape, value.tobytes())
        elif name == "also":
            for one, two in zip(value, other, strict=True):
                _same(one, two)
        else:
            assert other == value


def test_tables_come_back_bit_for_bit(tmp_path: Path) -> None:
    scenes = SceneValues(SCENES, KINDS, _cells())
    weighted = replace(scenes, weights=np.arange(18.0).reshape(6, 3))
    also = (_bins("auc"), replace(_bins(), positives=np.full((3, 2), 0.1)))
    scores = [
        Score("map", "all", 0.5, 3, scenes=scenes),
        Score("map", "weighting=sequences", 0.5, 3, scenes=weighted),
        Score("success_rate", "all", 0.5, 3, scenes=replace(scenes, cells=_cells(1)[:, :0])),
        Score("ap", "noise=easy", 0.5, 3, pooled=_bins()),
        Score("ap", "all", 0.5, 3, pooled=_bins(also=also)),
        Score("time_s", "all", 0.5, 3),
    ]
    with Store.open(tmp_path / "s") as store:
        back = store.values.get(store.values.put(scores))
    assert list(back) == [(s.metric, s.group) for s in scores[:-1]]
    for score in scores[:-1]:
        _same(score.scenes or score.pooled, back[score.metric, score.group])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="read-only"):
        back["map", "all"].cells[0, 0] = 1.0  # type: ignore[union-attr]


def test_equal_tables_are_written_once(tmp_path: Path) -> None:
    values = ValueStore(tmp_path)
    noise = np.random.default_rng(0).normal(size=(50, 50))
    names = tuple(f"s{i}" for i in range(50))

    def scores(count: int) -> list[Score]:
        tables = [SceneValues(names, ("v",) * 50, noise.copy()) for _ in range(count)]
        return [Score("map", f"pool={i}", 0.5, 1, scenes=t) for i, t in enumerate(tables)]

    one, many = values.put(scores(1)), values.put(scores(20))
    assert values.path(many).stat().st_size < 1.2 * values.path(one).stat().st_size
    assert values.put(scores(20)) == many
    assert len(list(tmp_path.rglob("*.npz"))) == 2


def test_the_key_follows_the_content(tmp_path: Path) -> None:
    values = ValueStore(tmp_path)
    table = SceneValues(SCENES, KINDS, _cells())
    base = Score("map", "all", 0.5, 3, scenes=table)
    cells = table.cells.copy()
    cells[5, 2] = np.nextafter(cells[5, 2], 1)
    different = [
        base,
        replace(base, metric="ap"),
        replace(base, group="noise=easy"),
        replace(base, scenes=replace(table, scenes=("x", *SCENES[1:]))),
        replace(base, scenes=replace(table, kinds=("v", *KINDS[1:]))),
        replace(base, scenes=replace(table, cells=cells)),
        replace(base, scenes=replace(table, weights=np.ones((6, 3)))),
        replace(base, scenes=None),
    ]
    assert len({values.put([s]) for s in different}) == len(different)


@pytest.mark.parametrize("damage", [b"", b"not an archive", b"PK\x03\x04"])
def test_a_missing_or_damaged_file_is_named(tmp_path: Path, damage: bytes) -> None:
    values = ValueStore(tmp_path)
    with pytest.raises(StoreError, match=r"ab12\.npz"):
        values.get("ab12")
    key = values.put([Score("map", "all", 0.5, 3, scenes=SceneValues(SCENES, KINDS, _cells()))])
    values.path(key).write_bytes(damage)
    with pytest.raises(StoreError, match=key):
        values.get(key)
