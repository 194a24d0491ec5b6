# SPDX-License-Identifier: BSD-3-Clause
"""Readers and writers of file formats, independent of tasks and datasets."""
