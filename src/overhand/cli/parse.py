"""The command line by the verb table: words to a verb and its arguments, and the help for them.

(argparse would double the time a verb takes to start.)"""

from __future__ import annotations

from overhand.errors import BadInput
from overhand.verbs import ALIASES, GLOBAL_ARGS, GROUPS, VERB_BY_NAME, VERBS, Arg, Verb

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
    found = VERB_BY_NAME.get(name)
    if found is None and name in ALIASES:
        first, *more = ALIASES[name]
        found, rest = VERB_BY_NAME[first], [*more, *rest]
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


_WIDTH = 96


def _usage(verb: Verb) -> str:
    """`overhand verb WORDS [options]`."""
    words = [_word_text(arg) for arg in verb.words]
    return " ".join(["overhand", verb.name, *words, *(["[options]"] if verb.options else [])])


def _word_text(arg: Arg) -> str:
    shown = f"{arg.value}…" if arg.many else arg.value
    return f"[{shown}]" if arg.optional else shown


def _option_text(arg: Arg) -> str:
    """`-s, --name VALUE`."""
    short = f"{arg.short}, " if arg.short else ""
    choices = "|".join(arg.choices)
    value = f" {choices or arg.value}" if arg.value else ""
    return f"{short}{arg.name}{value}"


def overview() -> str:
    """What `overhand --help` prints: everyday verbs first."""
    lines = [
        "overhand: hand work to agents, get a checked result back",
        "",
        "  overhand                what needs you, what works, what is ready (--watch, --all)",
    ]
    for group, members in GROUPS.items():
        if group != "everyday":
            lines += ["", f"{group}:"]
        for verb in members:
            if verb.name == "status":
                continue  # it needs no name: it stands above
            words = " ".join(["overhand", verb.name, *(_word_text(arg) for arg in verb.words)])
            lines += _two_columns(words, verb.help, 24)
    lines += ["", "Everywhere:"]
    for arg in GLOBAL_ARGS:
        lines += _two_columns(_option_text(arg), arg.help, 24)
    lines += ["", "ID is a task's number, a part of its title, or - for the last one. overhand VERB --help tells more."]
    return "\n".join(lines)


def verb_help(verb: Verb) -> str:
    """What `overhand VERB --help` prints."""
    lines = [_usage(verb), "", f"{verb.help[0].upper()}{verb.help[1:]}."]
    if verb.about:
        import textwrap

        lines += textwrap.wrap(verb.about, _WIDTH, break_on_hyphens=False)
    if verb.words:
        lines.append("")
        for arg in verb.words:
            told = arg.value == "|".join(arg.choices)
            choices = f" ({', '.join(arg.choices)})" if arg.choices and not told else ""
            lines += _two_columns(arg.value, arg.help + choices, 24)
    if verb.options:
        lines += ["", "Options:"]
        for arg in verb.options:
            lines += _two_columns(_option_text(arg), arg.help + (" (repeatable)" if arg.many else ""), 24)
    lines += ["", "Everywhere: --json, --project DIR, --help"]
    other = [name for name, words in ALIASES.items() if words == (verb.name,)]
    if other:
        lines.append(f"Also: {', '.join(other)}")
    return "\n".join(lines)


def _two_columns(left: str, right: str, width: int) -> list[str]:
    import textwrap

    wrapped = textwrap.wrap(right, _WIDTH - width - 2) or [""]
    if len(left) >= width - 2:
        return [f"  {left}", *(f"{'':{width + 2}}{line}" for line in wrapped)]
    return [f"  {left:{width}}{wrapped[0]}", *(f"{'':{width + 2}}{line}" for line in wrapped[1:])]


def reference() -> str:
    """The verbs' part of docs/reference.md."""
    parts = ["## Verbs", ""]
    for verb in VERBS:
        name = "`overhand`" if verb.name == "status" else f"`{verb.name}`"
        parts += [f"### {name}", "", "```text", verb_help(verb), "```", ""]
    return "\n".join(parts)
