# SPDX-License-Identifier: BSD-3-Clause
"""Compiled kernels for the CPU."""
