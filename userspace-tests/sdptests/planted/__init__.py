# SPDX-License-Identifier: MIT
"""Faults that are planted in the modules."""
