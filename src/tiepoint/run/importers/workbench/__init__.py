# SPDX-License-Identifier: BSD-3-Clause
"""Importer of DescriptorWorkbench results."""
