"""The one task builder: words, items, nodes and CONTROL lines in, a checked draft of a task out."""
