# SPDX-License-Identifier: BSD-3-Clause
"""``python -m tiepoint`` finds modules where the command ``tiepoint`` does: not in the current folder.

Python puts that folder first, and a ``json.py`` beside a user's files would be taken for Python's. Imported
before anything else; nothing is done where another program imports the package, or is itself found there.
"""

import os
import sys


def leave_current_folder() -> None:
    """Take the folder off the path while Python looks for ``tiepoint`` by ``-m``."""
    asked = " -m tiepoint" in " ".join(sys.orig_argv) or "-mtiepoint" in sys.orig_argv
    if sys.argv[:1] != ["-m"] or not asked or sys.flags.safe_path or not sys.path:
        return
    if os.path.dirname(os.path.dirname(os.path.abspath(__file__))) != os.path.abspath(sys.path[0]):
        del sys.path[0]


leave_current_folder()
