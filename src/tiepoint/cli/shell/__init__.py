# SPDX-License-Identifier: BSD-3-Clause
"""Between commands and the shell: streams, help, options of every command, completion, progress."""
