# SPDX-License-Identifier: BSD-3-Clause
"""Tasks `stress/*`: change an image more and more, and find out where a method breaks."""
