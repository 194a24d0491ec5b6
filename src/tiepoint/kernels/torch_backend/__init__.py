# SPDX-License-Identifier: BSD-3-Clause
"""The kernels on a torch device: which one, what is kept there, and the results that compiled code gives."""
