"""`python -m overhand.supervisor PROJECT [RECORD]`: the project's supervisor, in the foreground."""

import sys

from overhand.supervisor.loop import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
