# SPDX-License-Identifier: BSD-3-Clause
"""Files of matches between two images, as several programs write them."""
