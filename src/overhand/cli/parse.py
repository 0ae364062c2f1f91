"""From words to a verb and its arguments, by the verb table. (argparse would double the time a verb takes to start.)"""

from __future__ import annotations

from overhand.errors import BadInput
from overhand.verbs import ALIASES, GLOBAL_ARGS, VERBS, Arg, Verb, find_verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Parsed:
    def __init__(self, verb: Verb, values: dict[str, Any], *, project: str | None, help: bool, bare: bool) -> None:
        self.verb, self.values, self.project, self.help, self.bare = verb, values, project, help, bare


def parse(words: list[str]) -> Parsed:
    """The verb is the first word that is no global option; bare `overhand` is the headline screen."""
    common: dict[str, Any] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        if rest[0] == "--version":
            rest[0] = "version"
            break
        if any(rest[0] == option.name for option in VERBS[0].options):  # of the headline screen, which has no word
            rest.insert(0, VERBS[0].name)
            break
        rest = _option(rest, GLOBAL_ARGS, common, "overhand")
    bare = not rest
    name = rest.pop(0) if rest else "status"
    if name == "help":
        name, rest, common["help"], bare = (rest[0] if rest else "status"), [], True, not rest
    found = find_verb(name)
    if found is None and name in ALIASES:
        first, *more = ALIASES[name]
        found, rest = find_verb(first), [*more, *rest]
    if found is None:
        meant = _meant(name, [*(row.name for row in VERBS), *ALIASES])
        raise BadInput(f"There is no verb {name!r}.{meant}", "See them all: overhand --help")
    values = _arguments(found, rest, common)
    return Parsed(found, values, project=common.get("project"), help=bool(common.get("help")), bare=bare)


def _meant(word: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, known, 1)
    return f" Did you mean {near[0]}?" if near else ""


def _arguments(found: Verb, rest: list[str], common: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    words: list[str] = []
    while rest:
        if rest[0] == "--":
            words += rest[1:]
            break
        if rest[0].startswith("-") and rest[0] != "-":
            rest = _option(rest, (*found.options, *GLOBAL_ARGS), values, found.name, common)
        else:
            words.append(rest.pop(0))
    if not common.get("help"):
        _words(found, words, values)
    return values


def _option(
    rest: list[str], options: tuple[Arg, ...], values: dict[str, Any], name: str, common: dict[str, Any] | None = None
) -> list[str]:
    """Take one option (and its value) off the front."""
    word, equals, value = rest[0].partition("=")
    option = next((o for o in options if word in (o.name, o.short) and word), None)
    if option is None:
        see = f"overhand {name} --help" if name != "overhand" else "overhand --help"
        meant = _meant(word, [o.name for o in options])
        raise BadInput(f"There is no option {word}.{meant}", f"See them all: {see}")
    into = common if common is not None and option in GLOBAL_ARGS else values
    if not option.value:
        if equals:
            raise BadInput(f"{option.name} takes no value.", f"Write just {option.name}")
        into[option.key] = True
        return rest[1:]
    if not equals and option.bare and not (len(rest) > 1 and rest[1].isascii() and rest[1].isdigit()):
        into[option.key] = option.bare
        return rest[1:]
    if not equals:
        if len(rest) < 2:
            raise BadInput(f"{option.name} needs a value.", f"Write {option.name} {option.value}")
        value = rest[1]
    _one_of(option, value)
    if option.many:
        into.setdefault(option.key, []).append(value)
    else:
        into[option.key] = value
    return rest[1 if equals else 2 :]


def _one_of(arg: Arg, value: str) -> None:
    if arg.choices and value not in arg.choices:
        name = arg.name if arg.name.startswith("-") else arg.value
        raise BadInput(f"{name} cannot be {value!r}.", f"One of: {', '.join(arg.choices)}")


def _words(found: Verb, words: list[str], values: dict[str, Any]) -> None:
    for arg in found.words:
        key = arg.key.replace("|", "_or_") if "|" in arg.name else arg.key
        if not words:
            if not arg.optional:
                raise BadInput(f"{found.name} needs {arg.value}: {arg.help}.", f"overhand {found.name} {arg.value}")
            continue
        if arg.many:
            values[key], words = words, []
        else:
            _one_of(arg, words[0])
            values[key] = words.pop(0)
    if words:
        hint = f"Put text with blanks into quotes. overhand {found.name} --help"
        raise BadInput(f"{words[0]!r} is one word too many.", hint)
