# SPDX-License-Identifier: BSD-3-Clause
"""Kernels on a torch device, with the same results as the compiled CPU code."""
