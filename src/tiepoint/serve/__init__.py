# SPDX-License-Identifier: BSD-3-Clause
"""A store in the browser: pages made on this machine, read-only, nothing loaded from elsewhere."""
