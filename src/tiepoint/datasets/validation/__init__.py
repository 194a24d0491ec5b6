# SPDX-License-Identifier: BSD-3-Clause
"""Validation of datasets: problems, the published release, missing parts, usable tasks."""
