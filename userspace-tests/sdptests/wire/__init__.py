# SPDX-License-Identifier: MIT
"""Captures of packets, and the rules for them."""
