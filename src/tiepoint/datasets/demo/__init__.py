# SPDX-License-Identifier: BSD-3-Clause
"""Demo dataset, rendered from photographs of scikit-image."""
