# SPDX-License-Identifier: BSD-3-Clause
"""The three HPatches tasks of 2016."""
