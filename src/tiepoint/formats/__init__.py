# SPDX-License-Identifier: BSD-3-Clause
"""Readers and writers, one module per file format. They know nothing of tasks or datasets."""
