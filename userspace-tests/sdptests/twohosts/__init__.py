# SPDX-License-Identifier: MIT
"""Two hosts, `a` and `b`: running programs between them and judging the results."""
