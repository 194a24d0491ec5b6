# SPDX-License-Identifier: BSD-3-Clause
"""Storage of runs: an SQL database, and record and feature files on disk."""
