# SPDX-License-Identifier: BSD-3-Clause
"""Datasets from where they are published: sources, download, unpacking, verification."""
