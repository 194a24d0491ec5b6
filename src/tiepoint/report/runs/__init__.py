# SPDX-License-Identifier: BSD-3-Clause
"""Reading runs for a report: selection, labels, values."""
