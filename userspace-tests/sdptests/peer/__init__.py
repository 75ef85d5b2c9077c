# SPDX-License-Identifier: MIT
"""A peer that plays the other end of a connection byte by byte, and its cases."""
