# SPDX-License-Identifier: BSD-3-Clause
"""HPatches: patch strips, and the task files of 2016 and 2017."""
