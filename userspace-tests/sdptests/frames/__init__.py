# SPDX-License-Identifier: MIT
"""The frames of rlo."""
