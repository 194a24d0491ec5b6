# SPDX-License-Identifier: BSD-3-Clause
"""Check datasets: find problems, detect published releases, list the tasks that can run."""
