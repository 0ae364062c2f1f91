"""A working tree per task: a repository of its own that borrows the project's objects. Nothing else writes with git."""
