# SPDX-License-Identifier: MIT
"""The modules that the tests and benches in Python import."""
