# SPDX-License-Identifier: MIT
"""Measurements: loads, their figures, and the pages of results."""
