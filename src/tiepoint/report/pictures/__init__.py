# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of image pairs with the matches of a run."""
