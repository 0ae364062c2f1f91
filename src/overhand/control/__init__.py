"""CONTROL lines: what an agent asks for in the middle of its own text, heard, checked and explained."""

from overhand.control.delegating import Delegation, delegation
from overhand.control.lines import CODES, WORDS
from overhand.control.linting import is_control, lint
from overhand.control.listening import Command, Listener

__all__ = ["CODES", "WORDS", "Command", "Delegation", "Listener", "delegation", "is_control", "lint"]
