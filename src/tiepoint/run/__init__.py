# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate methods on tasks: plan runs, execute jobs, compute scores with intervals, write manifests."""
