# SPDX-License-Identifier: BSD-3-Clause
"""Tasks on pairs of images: relative pose, wide baselines, semantic transfer."""
