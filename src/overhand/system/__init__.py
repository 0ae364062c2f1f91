"""Files, locks, processes, FIFOs, inotify and git. Nothing here knows about tasks."""
