# SPDX-License-Identifier: BSD-3-Clause
"""Create figures as SVG."""
