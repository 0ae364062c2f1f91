"""Help and the reference page, from the verb table."""

from __future__ import annotations

import textwrap

from overhand.verbs import ALIASES, GLOBAL_ARGS, GROUPS, VERBS, Arg, Verb

_WIDTH = 96


def usage(verb: Verb) -> str:
    """`overhand verb WORDS [options]`."""
    words = [_word(arg) for arg in verb.words]
    return " ".join(["overhand", verb.name, *words, *(["[options]"] if verb.options else [])])


def _word(arg: Arg) -> str:
    shown = f"{arg.value}…" if arg.many else arg.value
    return f"[{shown}]" if arg.optional else shown


def option(arg: Arg) -> str:
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
            words = " ".join(["overhand", verb.name, *(_word(arg) for arg in verb.words)])
            lines += _two_columns(words, verb.help, 24)
    lines += ["", "Everywhere:"]
    for arg in GLOBAL_ARGS:
        lines += _two_columns(option(arg), arg.help, 24)
    lines += ["", "ID is a task's number, a part of its title, or - for the last one. overhand VERB --help tells more."]
    return "\n".join(lines)


def one(verb: Verb) -> str:
    """What `overhand VERB --help` prints."""
    lines = [usage(verb), "", f"{verb.help[0].upper()}{verb.help[1:]}."]
    if verb.about:
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
            lines += _two_columns(option(arg), arg.help + (" (repeatable)" if arg.many else ""), 24)
    lines += ["", "Everywhere: --json, --project DIR, --help"]
    other = [name for name, words in ALIASES.items() if words == (verb.name,)]
    if other:
        lines.append(f"Also: {', '.join(other)}")
    return "\n".join(lines)


def _two_columns(left: str, right: str, width: int) -> list[str]:
    wrapped = textwrap.wrap(right, _WIDTH - width - 2) or [""]
    if len(left) >= width - 2:
        return [f"  {left}", *(f"{'':{width + 2}}{line}" for line in wrapped)]
    return [f"  {left:{width}}{wrapped[0]}", *(f"{'':{width + 2}}{line}" for line in wrapped[1:])]


def reference() -> str:
    """The verbs' part of docs/reference.md."""
    parts = ["## Verbs", ""]
    for verb in VERBS:
        name = "`overhand`" if verb.name == "status" else f"`{verb.name}`"
        parts += [f"### {name}", "", "```text", one(verb), "```", ""]
    return "\n".join(parts)
