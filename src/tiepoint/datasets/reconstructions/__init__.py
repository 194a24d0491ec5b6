# SPDX-License-Identifier: BSD-3-Clause
"""Camera poses of scenes, true and estimated, in the layouts of several tools and benchmarks."""
