# SPDX-License-Identifier: BSD-3-Clause
"""Methods that see two images and give matches, a flow, or answers to given points."""
