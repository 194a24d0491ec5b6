# SPDX-License-Identifier: BSD-3-Clause
"""Measures of ranked lists."""
