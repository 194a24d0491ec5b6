# SPDX-License-Identifier: BSD-3-Clause
"""Structure from motion: camera poses of reconstructions compared with the true ones."""
