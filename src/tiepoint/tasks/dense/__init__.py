# SPDX-License-Identifier: BSD-3-Clause
"""Tasks of dense correspondence: flow on TSS and other data, and keypoints transferred by a flow."""
