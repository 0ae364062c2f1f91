"""What the kernel gives: files, locks, processes, FIFOs, inotify, git. It knows no task."""
