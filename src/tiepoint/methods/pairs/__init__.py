# SPDX-License-Identifier: BSD-3-Clause
"""Methods that receive two images and return matches, a flow, or positions of query points."""
