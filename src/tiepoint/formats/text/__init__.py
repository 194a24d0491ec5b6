# SPDX-License-Identifier: BSD-3-Clause
"""Text files of numbers and identifiers."""
