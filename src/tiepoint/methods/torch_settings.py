# SPDX-License-Identifier: BSD-3-Clause
"""Global settings of torch that change the output of a network."""

from __future__ import annotations

import sys
from typing import Any


def torch_settings(*, of_networks: bool = False) -> dict[str, str]:
    """Return torch settings of this process that differ from torch's defaults. Empty without torch.

    `of_networks` excludes the settings that `plain_float32` fixes for networks that tiepoint runs.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return {}
    cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    found = {
        "default_dtype": (torch.get_default_dtype(), torch.float32),
        "deterministic_algorithms": (torch.are_deterministic_algorithms_enabled(), False),
        "autocast": (torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled(), False),
        "fp16_reduction": (cuda.allow_fp16_reduced_precision_reduction, True),
        "bf16_reduction": (cuda.allow_bf16_reduced_precision_reduction, True),
    }
    if not of_networks:
        found |= {
            "cudnn.enabled": (cudnn.enabled, True),
            "cudnn.benchmark": (cudnn.benchmark, False),
            "cudnn.deterministic": (cudnn.deterministic, False),
            **_float32_precision(torch),
        }
    if hasattr(torch, "get_default_device"):
        found["default_device"] = (torch.get_default_device(), torch.device("cpu"))
    return {name: str(value) for name, (value, usual) in found.items() if value != usual}


def _float32_precision(torch: Any) -> dict[str, tuple[Any, Any]]:
    """Return (current, default) of the float32 precision of matrix products and convolutions, by setting."""
    if not hasattr(torch.backends, "fp32_precision"):
        precision = torch.get_float32_matmul_precision()
        return {"matmul": (precision, "highest"), "cudnn.tf32": (torch.backends.cudnn.allow_tf32, True)}
    # Reading the older settings fails once the newer ones are set.
    places = {
        "cuda.matmul": (torch.backends.cuda.matmul, "ieee"),
        "cudnn.conv": (torch.backends.cudnn.conv, "tf32"),
        "mkldnn.matmul": (torch.backends.mkldnn.matmul, "ieee"),
        "mkldnn.conv": (torch.backends.mkldnn.conv, "ieee"),
    }
    return {k: (p.fp32_precision.replace("none", "ieee"), usual) for k, (p, usual) in places.items()}
