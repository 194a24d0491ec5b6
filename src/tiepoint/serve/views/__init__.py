# SPDX-License-Identifier: BSD-3-Clause
"""Pages of the web server, one module per page."""
