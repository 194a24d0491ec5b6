# SPDX-License-Identifier: BSD-3-Clause
"""HPatches datasets, and creation of the task files of 2016 and 2017."""
