# SPDX-License-Identifier: BSD-3-Clause
"""How sure we are: intervals, paired tests, families, ranks. Pure functions on scene tables."""
