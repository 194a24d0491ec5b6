# SPDX-License-Identifier: BSD-3-Clause
"""Terminal input and output of the commands: streams, help, common options, completion, progress."""
