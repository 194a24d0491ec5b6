# SPDX-License-Identifier: BSD-3-Clause
"""Read-only datasets of patches, images, homographies and flows, with content hashes."""
