# SPDX-License-Identifier: BSD-3-Clause
"""``python -m tiepoint``."""

from .cli.main import main

if __name__ == "__main__":
    main()
