# SPDX-License-Identifier: BSD-3-Clause
"""Dense matchers, which compute a flow vector for every pixel."""
