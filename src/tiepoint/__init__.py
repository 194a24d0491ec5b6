# SPDX-License-Identifier: BSD-3-Clause
"""tiepoint: how well does a method find the same point in two images?"""

from ._version import __version__

__all__ = ["__version__"]
