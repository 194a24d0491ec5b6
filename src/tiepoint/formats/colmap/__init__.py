# SPDX-License-Identifier: BSD-3-Clause
"""COLMAP models: cameras, images, rigs, frames and points, as text and binary."""
