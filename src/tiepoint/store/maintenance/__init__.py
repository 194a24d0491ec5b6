# SPDX-License-Identifier: BSD-3-Clause
"""Upkeep of a store: what is in it, is it what was written, deleting, renaming, pruning."""
