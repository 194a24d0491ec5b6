# SPDX-License-Identifier: BSD-3-Clause
"""Tasks `stress/*`: change an image more and more, and find the level at which a method fails."""
