# SPDX-License-Identifier: BSD-3-Clause
"""Cutting HPatches-like patches from image sequences."""
