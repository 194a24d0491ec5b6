# SPDX-License-Identifier: BSD-3-Clause
"""Descriptors of patches."""
