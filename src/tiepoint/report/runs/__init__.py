# SPDX-License-Identifier: BSD-3-Clause
"""Read runs for a report: selection, display names and values."""
