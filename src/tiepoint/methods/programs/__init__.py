# SPDX-License-Identifier: BSD-3-Clause
"""``exec:COMMAND``: methods that are programs in any language, connected by pipes."""
