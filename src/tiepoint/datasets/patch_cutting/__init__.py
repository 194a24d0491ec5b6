# SPDX-License-Identifier: BSD-3-Clause
"""Cut patch datasets in the HPatches layout from image sequences."""
