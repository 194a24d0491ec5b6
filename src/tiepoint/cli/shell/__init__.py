# SPDX-License-Identifier: BSD-3-Clause
"""Terminal side of the commands: streams, help, common options, completion, progress."""
