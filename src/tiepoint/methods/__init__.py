# SPDX-License-Identifier: BSD-3-Clause
"""Methods: the things under test. `names` knows what they are called, `resolve` makes them ready to run."""
