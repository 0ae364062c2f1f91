"""Scripted agents and a project fixture for your own tests; no mocks, real processes.

`overhand.testing.agent` is a program that does what its arguments say, `overhand.testing.functions` are the
same agents as Python functions, `overhand.testing.project` makes a project around them, and the pytest
fixture `overhand_project` makes one in a temporary folder and ends everything it started.
"""
