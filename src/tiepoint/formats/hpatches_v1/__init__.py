# SPDX-License-Identifier: BSD-3-Clause
"""Files of the HPatches benchmark of 2016: task definitions and results."""
