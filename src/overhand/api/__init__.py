"""The Python API: projects, tasks and function agents in the calling process."""
