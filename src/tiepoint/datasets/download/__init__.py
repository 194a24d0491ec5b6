# SPDX-License-Identifier: BSD-3-Clause
"""Download, verify and unpack published datasets."""
