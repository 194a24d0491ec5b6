# SPDX-License-Identifier: BSD-3-Clause
"""YAML files whose top level is a mapping: settings that users write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..model.errors import FormatError, InputError


def read_mapping(path: Path, otherwise: str) -> dict[Any, Any]:
    """What a YAML file says; `otherwise` is told where it is YAML and no mapping.

    Raises:
        InputError: if it cannot be read.
        FormatError: if it is not YAML, with the line, or no mapping.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.yaml"
    >>> _ = path.write_text("jobs: 3")
    >>> read_mapping(path, "a file has jobs")
    {'jobs': 3}
    """
    import yaml

    try:
        found = yaml.safe_load(path.read_text())
    except OSError as e:
        raise InputError(f"cannot read {path}: {e.strerror or e}") from e
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise FormatError(path, f"is not YAML: {getattr(e, 'problem', e)}", line=line) from e
    if not isinstance(found, dict):
        raise FormatError(path, otherwise)
    return found
