# SPDX-License-Identifier: BSD-3-Clause
"""The failure atlas: the cases of a scene in an order worth looking at, and one of them made again."""
