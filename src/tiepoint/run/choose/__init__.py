# SPDX-License-Identifier: BSD-3-Clause
"""Choose a method for images without ground truth."""
