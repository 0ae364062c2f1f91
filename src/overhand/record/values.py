"""Records: plain classes that a type checker sees as dataclasses.

They stand in place of `dataclasses` because light verbs load them: neither it nor `typing` is imported at run time.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self, dataclass_transform
else:

    def dataclass_transform(**_options):
        return lambda cls: cls


@dataclass_transform(kw_only_default=True)
class Record:
    """Fields with defaults, compared and printed by value; `vars(record)` is its JSON form.

    A mutable field has no default: defaults are shared.
    """

    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, *, frozen: bool = False) -> None:
        """Collect the defaults once; `frozen` is checked by the type checker alone."""
        own = vars(cls)
        cls._defaults = {**cls._defaults, **{name: own[name] for name in own["__annotations__"] if name in own}}

    def __init__(self, **fields: object) -> None:
        """Every field is set, also to its default, so that `vars` is complete."""
        self.__dict__ = {**self._defaults, **fields}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))  # one with a list has none

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def replace(self, **fields: object) -> Self:
        """A copy with other values in these fields."""
        return type(self)(**{**vars(self), **fields})
