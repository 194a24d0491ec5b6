# SPDX-License-Identifier: BSD-3-Clause
"""The HTML report."""
