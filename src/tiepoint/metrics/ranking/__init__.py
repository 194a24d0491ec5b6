# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of ranked lists."""
