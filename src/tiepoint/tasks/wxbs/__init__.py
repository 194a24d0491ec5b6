# SPDX-License-Identifier: BSD-3-Clause
"""Tasks `wxbs/fundamental` and `wxbs/points`."""
