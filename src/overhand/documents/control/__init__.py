"""CONTROL lines: what an agent asks for in the middle of its own text, heard, checked and explained."""

from overhand.documents.control.delegation import Delegation, delegation
from overhand.documents.control.lines import CODES, WORDS
from overhand.documents.control.lint import is_control, lint
from overhand.documents.control.listener import Command, Listener

__all__ = ["CODES", "WORDS", "Command", "Delegation", "Listener", "delegation", "is_control", "lint"]
