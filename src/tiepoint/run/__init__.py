# SPDX-License-Identifier: BSD-3-Clause
"""Running methods on tasks: plan, executors, scores with intervals, manifests."""
