# SPDX-License-Identifier: BSD-3-Clause
"""HPatches-like patches cut from image sequences."""
