# SPDX-License-Identifier: MIT
"""The programs, one module each, which says what is run and how its result is judged."""
