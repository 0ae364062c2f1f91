"""The documents that agents and people read and write: render, parse, lint. Pure: no files, no clock."""
