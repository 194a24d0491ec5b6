# SPDX-License-Identifier: BSD-3-Clause
"""HPatches files: patch images, descriptor tables, splits, and pair and query lists."""
