# SPDX-License-Identifier: BSD-3-Clause
"""Draw image pairs with the matches or flows of a run."""
