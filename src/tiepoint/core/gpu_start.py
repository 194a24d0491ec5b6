# SPDX-License-Identifier: BSD-3-Clause
"""Load the libraries of torch and start the GPU in a thread, while the main thread imports modules.

Loading these libraries takes more than a second. Python's import statement holds the interpreter lock while
it loads them; ctypes releases the lock. The module torch itself is not imported here, because other code
checks whether it is imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from importlib.util import find_spec
from pathlib import Path


def start_gpu_early(device: str) -> None:
    """If `device` is a GPU, load torch's libraries and create the GPU context in the background.

    If a library is missing, the function does nothing. The code that uses the GPU reports the problem.
    """
    if device.partition(":")[0] == "cuda":
        threading.Thread(target=_start, args=(device,), name="gpu start", daemon=True).start()


def _start(device: str) -> None:
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        return
    number = device.partition(":")[2]
    folder = Path(torch.origin).parent / "lib"
    with contextlib.suppress(OSError, AttributeError):
        driver = ctypes.CDLL("libcuda.so.1")
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(handle), int(number or 0)) == 0:
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)  # the context that torch uses
    with contextlib.suppress(OSError):  # in the order and the modes of torch itself
        ctypes.CDLL(str(folder / "libtorch_global_deps.so"), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(folder / "libtorch.so"))
