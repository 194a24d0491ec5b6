# SPDX-License-Identifier: BSD-3-Clause
"""Upkeep of a store: is everything in it what it was when it was written."""
