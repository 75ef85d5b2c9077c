# SPDX-License-Identifier: MIT
"""Two hosts, `a` and `b`, and what is needed to run programs between them and judge the result."""
