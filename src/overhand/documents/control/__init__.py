"""CONTROL lines: commands that an agent writes in the middle of its own text; recognized, checked, explained."""

from overhand.documents.control.delegation import Delegation, delegation
from overhand.documents.control.lines import CODES, WORDS
from overhand.documents.control.lint import is_control, lint
from overhand.documents.control.listener import Command, Listener

__all__ = ["CODES", "WORDS", "Command", "Delegation", "Listener", "delegation", "is_control", "lint"]
