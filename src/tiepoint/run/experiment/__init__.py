# SPDX-License-Identifier: BSD-3-Clause
"""Experiments from YAML files."""
