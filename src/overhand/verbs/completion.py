"""Completion scripts, from the verb table."""

from __future__ import annotations

from overhand.verbs import Verb
from overhand.verbs.table import GLOBAL, VERBS


def _options(verb: Verb) -> list[str]:
    return [arg.name for arg in (*verb.options, *GLOBAL)]


def _choices(verb: Verb) -> list[str]:
    """The words that can follow a verb, such as `check` and `run` of `plan`."""
    return [choice for arg in verb.words for choice in arg.choices]


def _words(verb: Verb) -> str:
    return " ".join([*_choices(verb), *_options(verb)])


def script(shell: str) -> str:
    """A script to source; handles are completed by asking `overhand list`."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


_HANDLES = "overhand list --json 2>/dev/null | tr ',{' '\\n\\n' | sed -n 's/^ *\"handle\": //p'"


def _takes_task(verb: Verb) -> bool:
    return any(arg.name.endswith("ID") for arg in verb.words)


def _bash() -> str:
    cases = "\n".join(
        f'    {verb.name}) words="{_words(verb)}{" $(" + _HANDLES + ")" if _takes_task(verb) else ""}" ;;'
        for verb in VERBS
    )
    names = " ".join(verb.name for verb in VERBS)
    return f"""# overhand completion for bash: source <(overhand completion bash)
_overhand() {{
  local words cur=${{COMP_WORDS[COMP_CWORD]}}
  if [ "$COMP_CWORD" -eq 1 ]; then words="{names}"; else case ${{COMP_WORDS[1]}} in
{cases}
    *) words="" ;;
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$cur"))
}}
complete -F _overhand overhand
"""


def _zsh() -> str:
    rows = "\n".join(f"    '{verb.name}:{verb.help}'" for verb in VERBS)
    cases = "\n".join(
        f"    {verb.name}) compadd -- {_words(verb)}" + (f" $({_HANDLES})" if _takes_task(verb) else "") + " ;;"
        for verb in VERBS
    )
    return f"""#compdef overhand
# overhand completion for zsh: source <(overhand completion zsh)
_overhand() {{
  local -a verbs; verbs=(
{rows}
  )
  if (( CURRENT == 2 )); then _describe verb verbs; return; fi
  case $words[2] in
{cases}
  esac
  _files
}}
compdef _overhand overhand
"""


def _fish() -> str:
    lines = ["# overhand completion for fish: overhand completion fish | source"]
    for verb in VERBS:
        lines.append(f"complete -c overhand -n __fish_use_subcommand -a {verb.name} -d '{verb.help}'")
        inside = f"-n '__fish_seen_subcommand_from {verb.name}'"
        lines += [f"complete -c overhand {inside} -l {name.lstrip('-')}" for name in _options(verb)]
        lines += [f"complete -c overhand {inside} -a {choice}" for choice in _choices(verb)]
        if _takes_task(verb):
            lines.append(f"complete -c overhand {inside} -f -a '({_HANDLES.replace(chr(39), chr(34))})'")
    return "\n".join(lines) + "\n"
