# SPDX-License-Identifier: BSD-3-Clause
"""Remove the current folder from the module path of ``python -m tiepoint``.

Python puts the current folder first, so a user's ``json.py`` there would replace the standard module. The
package imports this module before any other. It changes nothing if another program imports the package.
"""

import os
import sys


def leave_current_folder() -> None:
    """Remove the current folder from the path while Python resolves ``-m tiepoint``."""
    asked = " -m tiepoint" in " ".join(sys.orig_argv) or "-mtiepoint" in sys.orig_argv
    if sys.argv[:1] != ["-m"] or not asked or sys.flags.safe_path or not sys.path:
        return
    if os.path.dirname(os.path.dirname(os.path.abspath(__file__))) != os.path.abspath(sys.path[0]):
        del sys.path[0]


leave_current_folder()
