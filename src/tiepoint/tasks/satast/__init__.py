# SPDX-License-Identifier: BSD-3-Clause
"""Task `satast/points`."""
