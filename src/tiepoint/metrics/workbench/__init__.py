# SPDX-License-Identifier: BSD-3-Clause
"""Measures as DescriptorWorkbench defines them."""
