# SPDX-License-Identifier: BSD-3-Clause
"""Methods under test: registry of names, resolution of specifications, adapters and checks."""
