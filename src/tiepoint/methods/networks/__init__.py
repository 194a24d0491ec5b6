# SPDX-License-Identifier: BSD-3-Clause
"""Learned patch descriptors: ONNX, TorchScript, kornia."""
