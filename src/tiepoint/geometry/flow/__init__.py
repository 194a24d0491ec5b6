# SPDX-License-Identifier: BSD-3-Clause
"""Flows: when they are known, resizing, consistency, warping, pictures."""
