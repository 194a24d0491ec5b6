# SPDX-License-Identifier: BSD-3-Clause
"""The dataset that is made on the spot from photographs."""
