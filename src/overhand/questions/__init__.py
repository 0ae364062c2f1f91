"""What an agent asks during a run: one record, many ways in, answered once."""
