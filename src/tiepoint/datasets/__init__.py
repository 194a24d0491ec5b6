# SPDX-License-Identifier: BSD-3-Clause
"""Datasets of patches, images, homographies and flows: read-only, with content hashes."""
