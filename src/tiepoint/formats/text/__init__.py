# SPDX-License-Identifier: BSD-3-Clause
"""Readers and writers of text files of numbers and identifiers."""
