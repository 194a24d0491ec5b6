# SPDX-License-Identifier: BSD-3-Clause
"""Drop-in faces of the older tools."""
