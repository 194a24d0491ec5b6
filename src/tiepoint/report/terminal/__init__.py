# SPDX-License-Identifier: BSD-3-Clause
"""Tables for the terminal."""
