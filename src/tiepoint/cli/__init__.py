# SPDX-License-Identifier: BSD-3-Clause
"""The command-line interface: parse arguments, call the library, print results."""
