# SPDX-License-Identifier: BSD-3-Clause
"""The pipeline of `sfm/reconstruct`: matches, database, COLMAP in a child process, pictures."""
