# SPDX-License-Identifier: BSD-3-Clause
"""Measures of flows, masks and transferred points."""
