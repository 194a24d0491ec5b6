# SPDX-License-Identifier: BSD-3-Clause
"""Create tables, plots and HTML pages from stored runs."""
