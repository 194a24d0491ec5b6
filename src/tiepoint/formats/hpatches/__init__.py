# SPDX-License-Identifier: BSD-3-Clause
"""Patch strips, descriptor tables, splits and task lists of HPatches."""
