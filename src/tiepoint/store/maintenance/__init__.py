# SPDX-License-Identifier: BSD-3-Clause
"""Maintenance of a store: inventory, verification, deletion, renaming and pruning."""
