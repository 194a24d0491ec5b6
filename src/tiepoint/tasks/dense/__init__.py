# SPDX-License-Identifier: BSD-3-Clause
"""Tasks of dense correspondence: TSS, flow, transferred keypoints."""
