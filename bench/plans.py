"""Plans: checked, scheduled, run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plans_advance
import plans_check
import plans_run

if TYPE_CHECKING:
    from measure import Row


def rows(*, quick: bool) -> list[Row]:
    """All figures of plans."""
    return [row for module in (plans_check, plans_advance, plans_run) for row in module.rows(quick=quick)]
