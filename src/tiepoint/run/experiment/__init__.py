# SPDX-License-Identifier: BSD-3-Clause
"""Run experiments that YAML files describe."""
