# SPDX-License-Identifier: BSD-3-Clause
"""Readers and writers of optical-flow files and of the TSS evaluation kit's files."""
