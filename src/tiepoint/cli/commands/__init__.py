# SPDX-License-Identifier: BSD-3-Clause
"""Commands of the command-line interface, one module per command or group of commands."""
