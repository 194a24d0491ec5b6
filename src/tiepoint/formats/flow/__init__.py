# SPDX-License-Identifier: BSD-3-Clause
"""Flow fields, and the files of the TSS kit."""
