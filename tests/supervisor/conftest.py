"""The tests of this folder end what they start, as those of the runtime do."""

from __future__ import annotations

from runtime.conftest import scene

__all__ = ["scene"]
