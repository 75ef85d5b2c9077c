# SPDX-License-Identifier: MIT
"""The programs, one module each, with their commands and the checks of their results."""
