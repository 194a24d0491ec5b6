# SPDX-License-Identifier: BSD-3-Clause
"""Basic types and helpers: errors, names, hashes, records and scores."""
