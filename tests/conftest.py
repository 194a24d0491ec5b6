"""Property tests search at random on a desk; in CI they repeat the same examples: a red run is a change."""

from __future__ import annotations

import os

from hypothesis import settings

# The first call may compile, so no example has a deadline.
settings.register_profile("desk", deadline=None)
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
