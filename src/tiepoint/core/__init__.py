# SPDX-License-Identifier: BSD-3-Clause
"""The words of tiepoint as types: errors, names, hashes, records, scores."""
