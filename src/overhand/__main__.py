"""`python -m overhand`."""

import sys

from overhand.cli import main

sys.exit(main())
