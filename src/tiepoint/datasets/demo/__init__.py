# SPDX-License-Identifier: BSD-3-Clause
"""Create a demo dataset from the photographs of scikit-image."""
