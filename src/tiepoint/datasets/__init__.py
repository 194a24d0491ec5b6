# SPDX-License-Identifier: BSD-3-Clause
"""Where patches, images, homographies and flows come from; read-only, with content hashes."""
