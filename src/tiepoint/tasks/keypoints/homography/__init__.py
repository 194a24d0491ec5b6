# SPDX-License-Identifier: BSD-3-Clause
"""Homographies from matches under the protocols of papers, and mean matching accuracy."""
