# SPDX-License-Identifier: BSD-3-Clause
"""Readers of image-matching results in the file formats of several programs."""
