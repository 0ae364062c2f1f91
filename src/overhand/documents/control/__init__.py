"""CONTROL lines: commands that an agent writes in the middle of its own text; recognized, checked, explained."""
