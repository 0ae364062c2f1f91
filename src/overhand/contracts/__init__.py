"""Checks that data is what was promised: types, comparison, expressions. Pure."""
