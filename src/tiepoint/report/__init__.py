# SPDX-License-Identifier: BSD-3-Clause
"""Tables, plots and pages made from stored runs."""
