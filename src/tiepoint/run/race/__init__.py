# SPDX-License-Identifier: BSD-3-Clause
"""Races: run methods unit by unit until it is certain which one is ahead."""
