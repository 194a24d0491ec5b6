"""Informative subsets: recorded samples and estimates, inclusion probabilities, standard errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from less_golden import golden, needs_golden, needs_zeb, zeb_values
from tiepoint.core.errors import InputError
from tiepoint.stats.subsets import DESIGNS, Sample, inclusion, sample_units

STRATUM = "set"
"""Stratum of the recorded samples of twenty units."""


def restated_error(values: list[float], chosen: Sample) -> float:
    """Standard error by plain loops, from the formula of neighbours on the line."""
    n, size = len(chosen.units), chosen.size
    z = [y / (size * p) for y, p in zip(values, chosen.probability, strict=True)]
    squares = 0.0
    for i in range(n - 1):
        squares += (z[i] - z[i + 1]) ** 2
    total = 0.0
    for p in chosen.probability:
        total += p
    return math.sqrt((1 - total / size) * n / (2 * (n - 1)) * squares)


@needs_golden
def test_samples_and_estimates_are_those_recorded() -> None:
    recorded = golden()["subset"]
    references = [dict(zip(recorded["keys"], own, strict=True)) for own in recorded["references"]]
    new = dict(zip(recorded["keys"], recorded["new_method"], strict=True))
    assert len(recorded["draws"]) == 12
    for name, draw in recorded["draws"].items():
        design, n, seed = name.split()
        made = sample_units(
            references, int(n[2:]), design=design, seed=int(seed.removeprefix("seed=")), stratum=STRATUM
        )
        assert list(made.units) == draw["chosen"], name
        y = np.array([new[key] for key in made.units])
        deviations = y - np.array(made.expected)
        variance = np.array(recorded["v"])
        assert inclusion(variance, int(n[2:]), design) == pytest.approx(draw["probability"], abs=1e-9)
        assert made.weights == pytest.approx(draw["weights"], abs=1e-9)
        assert made.total(y) == pytest.approx(draw["ht"], abs=1e-9)
        assert made.hajek(y) == pytest.approx(draw["hajek"], abs=1e-9)
        assert made.difference(y) == pytest.approx(draw["difference"], abs=1e-9)
        assert made.standard_error(y) == pytest.approx(draw["se_ht"], abs=1e-9)
        assert made.standard_error(deviations) == pytest.approx(draw["se_difference"], abs=1e-9)


@needs_golden
@needs_zeb
@pytest.mark.parametrize("design", DESIGNS)
def test_subset_of_zeb_sample_is_that_recorded(design: str) -> None:
    recorded = golden()["subset"]["zeb_sample, 20 a set, gim_dkm from the other three"][design]
    values, weights = zeb_values()
    others = [values[m] for m in ("root_sift", "gim_lightglue", "gim_loftr")]
    totals = dict.fromkeys(("ht", "hajek", "difference", "se_ht", "se_difference"), 0.0)
    for name, own in recorded["sets"].items():
        keys = [key for key in weights if key.startswith(f"{name}/")]
        made = sample_units([{k: v[k] for k in keys} for v in others], 20, design=design, stratum=name)
        assert [key.partition("/")[2] for key in made.units[:3]] == own["first_three"]
        y = [values["gim_dkm"][key] for key in made.units]
        deviations = [a - b for a, b in zip(y, made.expected, strict=True)]
        found = {
            "ht": made.total(y),
            "hajek": made.hajek(y),
            "difference": made.difference(y),
            "se_ht": restated_error(y, made),
            "se_difference": restated_error(deviations, made),
        }
        assert found == pytest.approx({key: own[key] for key in found}, abs=1e-9)
        for key, value in found.items():
            totals[key] += (value / 12) ** 2 if key.startswith("se") else value / 12
    assert totals["ht"] == pytest.approx(recorded["mean"]["ht"], abs=1e-9)
    assert totals["difference"] == pytest.approx(recorded["mean"]["difference"], abs=1e-9)
    for key in ("se_ht", "se_difference"):
        assert math.sqrt(totals[key]) == pytest.approx(recorded["se_mean"][key], abs=1e-9)


REFERENCES = [
    {f"p{k:02d}": (7 * k % 20) / 20 for k in range(20)},
    {f"p{k:02d}": (3 * k % 20) / 40 for k in range(20)},
]


@pytest.mark.parametrize("n", [1, 2, 6, 13])
def test_ordered_weights_sum_to_one(n: int) -> None:
    for seed in range(20):
        made = sample_units(REFERENCES, n, seed=seed)
        assert len(made.units) == n
        assert made.weights.sum() == pytest.approx(1.0)
        assert (made.standard_error(made.expected) is None) == (n == 1)


@pytest.mark.parametrize("design", DESIGNS)
def test_every_unit_is_sampled_with_its_probability(design: str) -> None:
    """6,000 seeds; the estimates are unbiased for a method unlike its references."""
    keys, draws = list(REFERENCES[0]), 6000
    variance = np.var([[own[k] for k in keys] for own in REFERENCES], axis=0)
    wanted = inclusion(variance, 5, design)
    value = {key: (k * k % 7) / 7 for k, key in enumerate(keys)}
    count, totals, differences = dict.fromkeys(keys, 0), [], []
    for seed in range(draws):
        made = sample_units(REFERENCES, 5, design=design, seed=seed)
        assert len(set(made.units)) == 5
        for key in made.units:
            count[key] += 1
        y = [value[key] for key in made.units]
        totals.append(made.total(y))
        differences.append(made.difference(y))
    share = np.array([count[key] / draws for key in keys])
    error = np.sqrt(wanted * (1 - wanted) / draws)
    assert np.abs(share - wanted).max() < 4.5 * error.max()
    truth = float(np.mean(list(value.values())))
    for estimates in (totals, differences):
        spread = np.std(estimates) / math.sqrt(draws)
        assert abs(np.mean(estimates) - truth) < 4.5 * spread


def test_probabilities_above_one_are_shared_again() -> None:
    made = inclusion([0.0, 25.0, 0.0, 0.0], 2, "pps")
    assert made[1] == 1.0
    assert made[[0, 2, 3]] == pytest.approx([1 / 3] * 3)
    assert inclusion([1.0, 2.0], 5, "pps").tolist() == [1.0, 1.0]


@pytest.mark.parametrize("design", DESIGNS)
def test_all_units_have_no_error(design: str) -> None:
    made = sample_units(REFERENCES, 25, design=design)
    assert sorted(made.units) == sorted(REFERENCES[0])
    y = np.linspace(0, 1, 20)
    assert made.total(y) == pytest.approx(y.mean())
    assert made.difference(y) == pytest.approx(y.mean())
    assert made.standard_error(y) == 0.0


def test_impossible_requests_raise() -> None:
    with pytest.raises(InputError, match="`design` is 'quality'; expected ordered or pps"):
        sample_units(REFERENCES, 5, design="quality")
    with pytest.raises(InputError, match="at least 1 unit"):
        sample_units(REFERENCES, 0)
    with pytest.raises(InputError, match="at least one reference"):
        sample_units([], 5)
