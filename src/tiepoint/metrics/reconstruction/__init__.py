# SPDX-License-Identifier: BSD-3-Clause
"""Errors and scores of reconstructed camera poses, under the rules of several benchmarks."""
