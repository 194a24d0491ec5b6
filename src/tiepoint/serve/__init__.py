# SPDX-License-Identifier: BSD-3-Clause
"""Browse a store in the browser. The server is local and read-only and loads no external resources."""
