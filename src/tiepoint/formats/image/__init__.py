# SPDX-License-Identifier: BSD-3-Clause
"""Readers and writers of images and masks."""
