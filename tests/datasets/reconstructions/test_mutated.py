"""Models with a flipped bit or a missing end: refused, or read with the right images and rotations."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_mutations import Mutations
from sfm_models import FORMS, needs_golden


@needs_golden
@pytest.mark.parametrize("form", FORMS)
def test_read_colmap_mutated_model_is_refused_or_right(tmp_path: Path, form: str) -> None:
    found = Mutations(form, tmp_path / "m").run(150)
    assert found.total() == 300
    assert found["refused"] > 100
