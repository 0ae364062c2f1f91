"""Setting up: `init`, `trust`, `version`, `completion`, `demo`."""

from __future__ import annotations

import os

import overhand
from overhand.errors import BadInput, NotFound, NotTrusted, Refused, storage_failed
from overhand.system import Beneath, random_text, read_file, remove_file, shown_address
from overhand.verbs.table import GLOBAL_ARGS, VERBS
from overhand.verbs.verb import Reply, Session, Verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from overhand.plans import Plan
    from overhand.policy import Caller

NETWORK_DISKS = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p")
_CONFIG = """\
# Settings of this project; the reference page lists them all.
# default_agent = "worker"

[limits]
# max_parallel = 3

# Commands that verify every result, run by Overhand before and after each task.
# Remove the # in front of a line to switch a check on, then: overhand trust
[checks]
{checks}"""


def version(session: Session) -> Reply:
    return Reply({"schema": "overhand.version/1", "version": overhand.__version__})


def completion(session: Session, shell: str) -> Reply:
    """A script to source; handles are completed by asking `overhand list`."""
    text = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()
    return Reply({"schema": "overhand.completion/1", "shell": shell, "text": text, "raw": True})


def demo(session: Session, keep: bool = False) -> Reply:
    from contextlib import closing
    from importlib import import_module

    reply = Reply({"schema": "overhand.demo/1"})

    def steps() -> Iterator[dict[str, Any]]:
        with closing(import_module("overhand.testing.demo").run(keep=keep)) as items:  # it cleans up after itself
            for item in items:
                reply.code = 1 if item.get("ok") is False else 0
                yield item

    reply.stream = steps()
    return reply


def init(session: Session) -> Reply:
    """Write the settings; existing files stay as they are."""
    from overhand.policy import find_caller, require_person

    require_person(find_caller(session.store), "Setting up a project")
    payload: dict[str, Any] = {"schema": "overhand.init/1", "project": session.root, "wrote": _set_up(session)}
    payload["proposed"] = _proposed_checks(session.root)
    return Reply({**payload, "next": ["overhand agents", 'overhand delegate "what to do"']})


def ensure_project(session: Session) -> None:
    """The first task in a folder makes it a project."""
    if Beneath(session.root).is_file(".overhand/config.toml") and os.path.isdir(session.store.own):
        return
    if wrote := _set_up(session):
        session.tell(f"Made {session.root} an Overhand project: {', '.join(wrote)}")
        from overhand.system import tracked_files

        if tracked := tracked_files(session.root, session.store.workspaces):
            session.tell(
                f"git tracks {len(tracked)} files in .agent-workspaces: a clone of this repository has your tasks' "
                "documents. To stop that: git rm -r --cached .agent-workspaces"
            )


def _set_up(session: Session) -> list[str]:
    """The files of `init`; only files that we wrote ourselves become trusted."""
    from overhand.policy import content_digest, mark_trusted

    known = session.store.exists()
    session.store.ensure()
    root = session.root
    _require_locks(session, is_new=not known)
    files = Beneath(root)
    files.make_folder(".overhand", mode=0o755)
    checks = "".join(f'# {name} = "{command}"\n' for name, command in _proposed_checks(root).items())
    contents = {
        ".overhand/config.toml": _CONFIG.format(checks=checks or '# tests = "make test"\n'),
        ".overhand/.gitignore": "local.toml\nlanding/\n",
    }
    missing = [name for name in contents if not files.exists(name)]
    if ".overhand/config.toml" in missing:  # trusted before it exists: a delegation that finds it may go on at once
        mark_trusted(root, {".overhand/config.toml": content_digest(contents[".overhand/config.toml"].encode())})
    wrote = [name for name in missing if files.write_if_missing(name, contents[name])]
    wrote += [] if known else [".agent-workspaces/.gitignore", ".agent-workspaces/.project"]
    return wrote


def _require_locks(session: Session, *, is_new: bool) -> None:
    """Locks must work where the record lies; that it is a network disk, which may keep them badly, is said once."""
    import fcntl

    kind = file_system(session.store.own)
    if is_new and kind in NETWORK_DISKS:
        session.tell(
            f"The record of this project lies on {kind}: only one machine may work there. To keep records on a local "
            "disk: OVERHAND_STATE=/local/dir"
        )
    probe = f"{session.store.own}/.probe-{random_text(8)}"  # its own: other processes may set up at the same time
    try:
        fd = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise storage_failed(error, "Cannot make a project here") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise Refused(
            f"The file system of {session.store.own} has no working locks: {error}.",
            "Keep records on a local disk: OVERHAND_STATE=/local/dir",
        ) from error
    finally:
        os.close(fd)
        remove_file(probe)


def projects(session: Session) -> Reply:
    """Every project with a record, and the size of that."""
    from overhand.record import known_roots
    from overhand.verbs.doctor import folder_size

    rows = [
        {"project": one.root, "record": one.folder, "gone": one.gone, "bytes": folder_size(one.folder)}
        for one in known_roots()
    ]
    return Reply({"schema": "overhand.projects/1", "projects": rows})


def file_system(path: str) -> str:
    """The type of the file system a path is on; empty where the system does not say."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            return kind_of_disk(path, file.read())
    except OSError:
        return ""


def kind_of_disk(path: str, mounts: str) -> str:
    """The type of the innermost mount around a path; of several at one place the last, which covers the others."""
    found, longest = "", -1
    for line in mounts.splitlines():
        place, kind = line.split()[1:3]
        for code, letter in ((r"\011", "\t"), (r"\012", "\n"), (r"\040", " "), (r"\134", "\\")):
            place = place.replace(code, letter)
        place = place.rstrip("/")
        if len(place) >= longest and (path == place or path.startswith(f"{place}/")):
            found, longest = kind, len(place)
    return found


def _proposed_checks(root: str) -> dict[str, str]:
    """The project's own test command, if it is obvious."""
    makefile = (read_file(f"{root}/Makefile") or b"").decode("utf-8", "replace")
    if any(line.startswith("test:") for line in makefile.splitlines()):
        return {"tests": "make test"}
    for name, command in (("package.json", "npm test"), ("Cargo.toml", "cargo test"), ("go.mod", "go test ./...")):
        if os.path.exists(f"{root}/{name}"):
            return {"tests": command}
    python = any(os.path.exists(f"{root}/{name}") for name in ("pyproject.toml", "setup.py"))
    return {"tests": "python3 -m pytest -q"} if python and os.path.isdir(f"{root}/tests") else {}


def trust_project(session: Session, file: list[str] | None = None, yes: bool = False) -> Reply:
    """Show what some files, or all, could run, ask, and remember their content."""
    from overhand.agents import runnable_files
    from overhand.policy import file_digests, find_caller, mark_trusted, require_person, untrusted_files

    require_person(find_caller(session.store), "Trusting a project")
    wanted = [_in_project(session.root, name) for name in file or ()]
    waiting = untrusted_files(session.root, wanted or runnable_files(session.root))
    marks = file_digests(session.root, waiting)  # now, so that exactly the shown bytes become trusted
    links = [name for name in waiting if name not in marks]
    waiting = list(marks)
    shown = [{"file": name, "runs": _what_it_runs(session.root, name)} for name in waiting]
    if waiting and not yes:
        if session.confirm is None:
            names = ", ".join(one["file"] for one in in_groups(shown))
            raise NotTrusted(f"Not trusted yet: {names}.", "Read them, then: overhand trust --yes", files=waiting)
        lines = "\n".join("\n      ".join((f"  {one['file']}", *one["runs"])) for one in in_groups(shown))
        question = (
            f"These files of the project could make Overhand run something:\n{lines}\nTrust them as they are now?"
        )
        if not session.confirm(question):
            raise NotTrusted("Not trusted; nothing was run.", "Read them first, then: overhand trust")
    if waiting:
        mark_trusted(session.root, marks)
    payload = {"schema": "overhand.trust/1", "project": session.root, "trusted": shown}
    return Reply({**payload, "all": wanted or runnable_files(session.root), "refused": links}, 3 if links else 0)


def in_groups(rows: list[dict[str, Any]], most: int = 12) -> list[dict[str, Any]]:
    """The files, where there are many of them those of a folder that name no command of their own as one row."""
    folders: dict[str, int] = {}
    for row in rows:
        if not row["runs"]:
            folder = os.path.dirname(row["file"])
            folders[folder] = folders.get(folder, 0) + 1
    if len(rows) <= most:
        return rows
    told = [{"file": f"{folder}/*", "runs": [f"{count} files without a command"]} for folder, count in folders.items()]
    return [*(row for row in rows if row["runs"]), *told]


def _in_project(root: str, name: str) -> str:
    """A file's name from the project's folder."""
    path = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(name))), os.path.basename(name))
    real = os.path.realpath(root)
    if not os.path.lexists(path):
        raise NotFound(f"There is no file {name}.", "Name a file of this project, such as a plan.")
    if not path.startswith(real + os.sep) or os.path.isdir(path):
        raise BadInput(f"{name} is no file of {root}.", "Name a file of this project, such as a plan.")
    return os.path.relpath(path, real)


def _settings(name: str, value: Any) -> list[str]:
    """One setting, or a table of them, a line each."""
    if isinstance(value, dict):
        return [line for key, one in value.items() for line in _settings(f"{name}.{key}", one)]
    return [f"{name}: {shown_address(value) if name.startswith('notify.') else value}"]


def _of_program(text: str) -> list[str]:
    """An agent program's own settings: the lines that name a command; the rest is for the person to read."""
    lines = [" ".join(line.split()) for line in text.splitlines() if "command" in line.lower()]
    return [*(line[:200] for line in lines[:20]), "an agent's own program reads this: hooks, servers and plugins run"]


def _what_it_runs(root: str, name: str) -> list[str]:
    """The commands in a file, for the person who has to decide."""
    import shlex
    import tomllib

    from overhand.agents import PLAN_SUFFIXES, all_drivers, program_files
    from overhand.documents import parse_agent_file
    from overhand.plans import read_plan_text

    text = (read_file(f"{root}/{name}") or b"").decode("utf-8", "replace")
    if not name.endswith(".md") and name in program_files(root, *all_drivers().values()):
        return _of_program(text)
    if name.endswith(PLAN_SUFFIXES):
        plan = read_plan_text(text, name).plan
        if plan is None:
            return ["a plan that cannot be read: overhand plan check says why"]
        agents = ", ".join(dict.fromkeys(node.agent or "any agent that fits" for node in plan.nodes.values()))
        return [f"hands tasks to: {agents}", *plan_commands(plan)]
    if name.endswith(".toml"):
        try:
            keys = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            return [f"cannot be read: {error}"]
        names = ("default_agent", "default_driver", "drivers", "checks", "notify", "routes", "approval")
        return [line for name in names if name in keys for line in _settings(name, keys[name])]
    if not name.endswith(".md"):
        return _of_program(text)
    found, _ = parse_agent_file(text)
    options = found.settings if found else {}
    if not options:
        return []  # its folder's own program runs it, or a driver of the settings
    wanted = ("driver", "command", "function", "start", "poll", "collect", "stop")
    shown = {key: options[key] for key in wanted if options.get(key) is not None}
    return [f"{key}: {shlex.join(map(str, one)) if isinstance(one, list) else one}" for key, one in shown.items()]


def _options(verb: Verb) -> list[str]:
    return [arg.name for arg in (*verb.options, *GLOBAL_ARGS)]


def _choices(verb: Verb) -> list[str]:
    """The words that can follow a verb, such as `check` and `run` of `plan`."""
    return [choice for arg in verb.words for choice in arg.choices]


def _candidates(verb: Verb) -> str:
    handles = [f"$({_HANDLES})"] if _takes_task(verb) else []
    return " ".join([*_choices(verb), *_options(verb), *handles])


_HANDLES = "overhand list --json 2>/dev/null | tr ',{' '\\n\\n' | sed -n 's/^ *\"handle\": //p'"


def _takes_task(verb: Verb) -> bool:
    return any(arg.name.endswith("ID") for arg in verb.words)


def _bash() -> str:
    cases = "\n".join(f'    {verb.name}) words="{_candidates(verb)}" ;;' for verb in VERBS)
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
    cases = "\n".join(f"    {verb.name}) compadd -- {_candidates(verb)} ;;" for verb in VERBS)
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


def ask_for_trust(session: Session, caller: Caller) -> None:
    """Ask a person on a terminal to trust files of the project that are not trusted yet."""
    if session.confirm is None or not caller.is_person:
        return
    from overhand.agents import runnable_files
    from overhand.policy import load_config, untrusted_files

    if untrusted_files(session.root, runnable_files(session.root)):
        load_config(session.root)  # invalid settings are refused before the question
        trust_project(session, yes=False)


def plan_commands(plan: Plan) -> list[str]:
    """The commands of a plan that Overhand itself would run: checks and the merge."""
    checks = [(node.id, check) for node in plan.nodes.values() for check in node.verification]
    found = [f"{name} checks: {one['command']}" for name, one in checks if isinstance(one, dict) and one.get("command")]
    found += [f"merge: {' '.join(plan.merge.command)}"] if plan.merge.command else []
    return found + ([f"merge: {plan.merge.function}"] if plan.merge.function else [])
