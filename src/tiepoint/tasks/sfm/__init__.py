# SPDX-License-Identifier: BSD-3-Clause
"""Structure from motion: tasks that compare the camera poses of reconstructions with the true poses."""
