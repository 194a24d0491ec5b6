# SPDX-License-Identifier: BSD-3-Clause
"""Kernels on a torch device: device selection, row cache, and the same results as the compiled code."""
