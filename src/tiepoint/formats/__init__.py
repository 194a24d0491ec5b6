# SPDX-License-Identifier: BSD-3-Clause
"""Readers and writers, one file per format. Nothing here knows a task or a dataset."""
