"""`python -m overhand.supervisor PROJECT [RECORD]`: the project's supervisor, in the foreground."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from overhand.supervisor import loop

if TYPE_CHECKING:
    from overhand.supervisor.calls import TakenCall, Waiting


def carry_out(taken: TakenCall, raw: bytes | None) -> dict[str, Any] | Waiting:
    """The verbs are imported when a run calls one; they are above everything else of the supervisor."""
    from overhand.verbs import carry_out

    return carry_out(taken, raw)


main = partial(loop.main, carry_out=carry_out)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
