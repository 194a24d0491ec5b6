# SPDX-License-Identifier: BSD-3-Clause
"""Where runs live: a SQL database, records and cached features on disk."""
