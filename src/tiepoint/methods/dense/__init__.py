# SPDX-License-Identifier: BSD-3-Clause
"""Dense matchers: a flow for every pixel."""
