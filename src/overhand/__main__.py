"""`python -m overhand`."""

from overhand.cli import program

program()
