# SPDX-License-Identifier: BSD-3-Clause
"""Ways into a store: its URL, the one query of a user."""
