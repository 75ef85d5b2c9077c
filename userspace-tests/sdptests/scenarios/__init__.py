# SPDX-License-Identifier: MIT
"""Scenarios that take something away from connections, and their surroundings."""
