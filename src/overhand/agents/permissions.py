"""What a run may do without asking, and what becomes a question.

A level allows kinds of tools; `allow` and `deny` patterns of an agent file add to it and take from it; everything else
is withheld and becomes a question with fixed options. An answer belongs to exactly the request it was given for (the
question begins with its digest), so the next run of the task finds it; «always for this task» is an answer like any
other and holds for every later run. Patterns guard against mistakes, not against malice: a shell can do anything.
"""

from __future__ import annotations

import os

from overhand.words import LEVELS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from overhand.record import By, Question, Store, Task

ONCE, ALWAYS, REJECT = "Allow once", "Always for this task", "Reject"
EXACTLY = "exactly this"
LOOKING = ("read", "search", "think", "fetch")
CHANGING = ("edit", "delete", "move")
_VERBS = {"execute": "run", "edit": "change"}
_OWN_VERBS = ("delete", "move", "read", "search", "fetch")  # kinds whose name is the verb
_OURS = ("mcp__overhand__", "overhand__", "overhand_", "overhand.", "overhand/", "overhand: ")
_OUR_TITLE = " (overhand mcp server)"
_PATHS = ("path", "file_path", "filePath", "filepath", "absolute_path", "notebook_path", "abs_path", "destination")
_JOINS = (";", "&", "|", "\n", "`", "$", "<", ">", "(", ")", "{", "}", "*", "?", "[", "\\", "'", '"', "#", "~", "!")
_WRAPPERS = ("sh", "bash", "zsh", "dash", "env", "sudo", "xargs", "python", "python3", "node", "perl", "ruby", "eval")
_BEFORE = ("env", "sudo", "command", "exec", "nohup", "time", "then", "do", "else")
_LONG = 70  # characters of a pattern that is offered: options in the log are short


def describe_level(level: str, *, asks: bool, walled: bool = False) -> str:
    """The level's description that a person sees at the start; `walled`: a shield keeps the project read-only."""
    more = "what else it wants becomes a question" if asks else "what else it wants is denied where its program can"
    more = f"changes to the project are refused; {more}" if walled else more
    return f"{LEVELS[level]}{'' if level == 'full' else f'; {more}'}; a worktree is not a sandbox"


class ToolRequest:
    """A tool call that an agent asks permission for."""

    __slots__ = ("command", "detail", "kind", "name", "paths")

    def __init__(self, kind: str, name: str, command: str = "", paths: Sequence[str] = (), detail: str = "") -> None:
        self.kind, self.name, self.command, self.paths, self.detail = kind, name, command, tuple(paths), detail

    @property
    def what(self) -> str:
        """The command, paths or tool that it is about."""
        return self.command or ", ".join(self.paths) or self.name or "something that it does not name"

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


class Policy:
    """What a run may do: its level, its agent's patterns, the folders that are its own.

    Behind a shield that keeps the project read-only, `workspace` is what it can change there, whatever a person says.
    """

    __slots__ = ("allow", "beyond", "deny", "level", "place", "project", "workspace")

    def __init__(
        self,
        level: str,
        project: str,
        place: str,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        workspace: str = "",
    ) -> None:
        self.level, self.allow, self.deny = level, tuple(allow), tuple(deny)
        self.project, self.place = os.path.realpath(project), os.path.realpath(place)
        self.workspace = os.path.realpath(workspace) if workspace else ""
        self.beyond = False  # True if a sandbox permits what the level allows, so that every request lies outside it


def request(kind: str | None, tool: str, raw: object, locations: Iterable[str] = (), cwd: str = "") -> ToolRequest:
    """A tool call as a request of the kind that its driver names; paths are absolute and without links."""
    from overhand.system import dump_line

    given: dict[str, Any] = raw if isinstance(raw, dict) else {}
    found = [*locations, *(given[key] for key in _PATHS if isinstance(given.get(key), str))]
    paths = dict.fromkeys(os.path.realpath(os.path.join(cwd or os.getcwd(), path)) for path in found)
    words = given.get("command", given.get("cmd", ""))
    command = " ".join(map(str, words)) if isinstance(words, list) else str(words or "")
    if not kind:
        kind = "execute" if command and not paths else "other"
    elif kind in LOOKING and command and not any(key in given for key in _PATHS):
        kind = "execute"  # a shell, whatever paths it names
    command = command or tool if kind == "execute" else ""  # some agents put it in the title only
    name = tool.split(" ", maxsplit=1)[0] if kind == "execute" else tool
    return ToolRequest(kind, name, command, tuple(paths), dump_line(given))


def rule(asked: ToolRequest, policy: Policy) -> str:
    """`allow`, `deny` or `ask`, by level and patterns alone."""
    if any(matches(pattern, asked, denies=True) for pattern in policy.deny) or _is_impossible(asked, policy):
        return "deny"
    if policy.level == "full" or any(matches(pattern, asked) for pattern in policy.allow):
        return "allow"
    if asked.kind in LOOKING or _is_ours(asked):
        return "allow"
    if asked.kind in CHANGING and asked.paths:
        room = (policy.place, policy.project) if policy.level == "work" else (policy.place,)
        return "allow" if all(any(_is_in(path, one) for one in room) for path in asked.paths) else "ask"
    return "allow" if policy.level == "work" and not policy.beyond and asked.kind != "switch_mode" else "ask"


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _is_impossible(asked: ToolRequest, policy: Policy) -> bool:
    """Whether it would change the project behind a shield that keeps it read-only: nobody is asked in vain."""
    if not policy.workspace or asked.kind not in CHANGING:
        return False
    return any(_is_in(path, policy.project) and not _is_in(path, policy.workspace) for path in asked.paths)


def _is_ours(asked: ToolRequest) -> bool:
    """Whether it is a tool of our own server; a file or a command may be called anything."""
    name = asked.name.lower()
    return asked.kind == "other" and not asked.paths and (name.startswith(_OURS) or name.endswith(_OUR_TITLE))


def matches(pattern: str, asked: ToolRequest, *, denies: bool = False) -> bool:
    """`tool`, `tool: what` or `tool(what)`; `*` is any text, and never hides a second command where it allows."""
    tool, colon, what = pattern.partition(":")
    if not colon and pattern.endswith(")") and "(" in pattern:
        tool, colon, what = pattern[:-1].partition("(")
    tool, what = tool.strip().lower(), what.strip()
    if not any(glob(tool, one) for one in (asked.kind, asked.name.lower())):
        return False
    if not colon or what in ("", "*"):
        return True
    if asked.kind == "execute" and denies:
        return any(glob(what, part) for part in (asked.command, *_parts(asked.command)))
    if asked.kind == "execute":
        return what == asked.command or (is_plain(asked.command) and glob(what, asked.command))
    if asked.paths:
        fits = [glob(what, path) or path.endswith(f"/{what}") for path in asked.paths]
        return any(fits) if denies else all(fits)
    return glob(what, asked.what)


def glob(pattern: str, text: str) -> bool:
    """Match a pattern in which only `*` is special."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    if not text.startswith(first):
        return False
    at = len(first)
    *middle, last = rest
    for part in middle:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return text.endswith(last) and len(text) - len(last) >= at


def is_plain(command: str) -> bool:
    """Whether it is a single command without special shell syntax."""
    return command.isprintable() and not any(one in command for one in _JOINS)


def _parts(command: str) -> list[str]:
    """Roughly, the single commands of a line, including those passed to a shell, without prefixes such as variables."""
    for one in (";", "&", "|", "(", ")", "`", "{", "}"):
        command = command.replace(one, "\n")
    found = []
    for part in command.split("\n"):
        words = part.strip(" $\"'").split()
        found.append(" ".join(words))
        while words and (words[0] in _BEFORE or "=" in words[0]):
            del words[0]
        if not words:
            continue
        name = os.path.basename(words[0])
        found.append(" ".join((name, *words[1:])))
        if name in _WRAPPERS:
            found += [" ".join(inner.split()) for inner in part.replace("'", '"').split('"')[1:]]
    return [one for one in found if one]


def widest(asked: ToolRequest) -> str:
    """The pattern that «always» offers; exactly this request if no pattern would be safe."""
    words = asked.command.split()
    if asked.kind == "execute":
        first = asked.command.partition(" ")[0]
        safe = is_plain(asked.command) and len(words) > 1 and words[0] == first
        pattern = f"execute: {first} *" if safe and os.path.basename(first) not in _WRAPPERS else EXACTLY
    elif asked.kind in CHANGING and len(asked.paths) == 1 and "*" not in asked.paths[0]:
        pattern = f"{asked.kind}: {os.path.dirname(asked.paths[0])}/*"
    elif asked.kind == "other" and not asked.paths and asked.name and not set("*:()") & set(asked.name):
        pattern = asked.name
    else:
        pattern = EXACTLY
    return pattern if len(pattern) <= _LONG else EXACTLY


def digest(asked: ToolRequest) -> str:
    from hashlib import sha256

    whole = "\0".join((asked.kind, asked.name, asked.command, *asked.paths, asked.detail))
    return sha256(whole.encode("utf-8", "replace")).hexdigest()[:12]


def wording(asked: ToolRequest, policy: Policy) -> str:
    """The question's text; it begins with the request's digest, which survives if a long text is cut."""
    what = "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in asked.what[:2001])
    shown = what if len(what) <= 2000 else what[:2000] + "…"
    but = "; the project stays read-only" if policy.workspace else ""
    return f"{_opening(asked)} level {policy.level} withholds it{but}): {shown}"


def denial(asked: ToolRequest, policy: Policy) -> str:
    """What an agent is told whose request was denied."""
    if _is_impossible(asked, policy):
        return f"The task may only read, so the project is read-only: {asked}. Say in your return what should change."
    return f"It was not allowed: {asked}"


def _opening(asked: ToolRequest) -> str:
    verb = asked.kind if asked.kind in _OWN_VERBS else _VERBS.get(asked.kind, "use")
    return f"May it {verb} this (request {digest(asked)};"


def begin(store: Store, task_id: str, run_id: str, asked: ToolRequest, policy: Policy, via: str) -> Question | str:
    """`allow` or `deny`, by level, patterns and record; else the question that now waits."""
    found = rule(asked, policy)
    if found != "ask":
        return found
    from overhand.questions import Asking, ask_question

    task = store.recorded(task_id)
    if known := remembered(task, run_id, asked):
        return known
    by: By = {"kind": "run", "run": run_id, "via": via}
    options = (ONCE, f"{ALWAYS}: {widest(asked)}", REJECT)
    asking = Asking(text=wording(asked, policy), options=options, only=True, via="permission")
    question = ask_question(store, task_id, run_id, asking, by, anew=is_used_up(task, asked))
    return question if question.is_open else verdict(question.answer)


def remembered(task: Task, run_id: str, asked: ToolRequest) -> str:
    """What an earlier answer decides: an «always» of any run, or a rejection of the same request in this run."""
    opening = _opening(asked)
    for question in task.questions:
        if question.via != "permission" or question.is_open:
            continue
        answer, same = question.answer or "", question.text.startswith(opening)
        if answer.startswith(f"{ALWAYS}: "):
            pattern = answer.removeprefix(f"{ALWAYS}: ")
            if same if pattern == EXACTLY else matches(pattern, asked):
                return "allow"
        elif same and answer == REJECT and question.run == run_id:
            return "deny"
    return ""


def is_used_up(task: Task, asked: ToolRequest) -> bool:
    """Whether «once» was answered while the asking run could still act on it: the next run must ask again."""
    opening = _opening(asked)
    for question in reversed(task.questions):
        if question.via == "permission" and question.answered and question.text.startswith(opening):
            run = task.run(question.run)
            lived = run is None or run.ended is None or question.answered <= run.ended
            return lived and (question.answer or "") == ONCE
    return False


def verdict(answer: str | None) -> str:
    """What an answer to such a question means."""
    return "allow" if answer and answer.startswith((ONCE, ALWAYS)) else "deny"


def policy_of(store: Store, task_id: str, run_id: str) -> Policy:
    """What a run may do, as it was when it began."""
    from overhand.system import load_line, read_file

    desk = store.desk(task_id, run_id)
    spec = load_line((read_file(f"{store.run_folder(task_id, run_id)}/spec.json") or b"{}").decode())
    own = store.workspace(task_id) if spec.get("walled") else ""
    return Policy(spec.get("level", "read"), store.root, desk, spec.get("allow", ()), spec.get("deny", ()), own)


class Waiting:
    """A question that a process waits for beside its other work: a bell to poll, and a mark that says so."""

    def __init__(self, store: Store, task_id: str, run_id: str, question: Question) -> None:
        from overhand.questions import PendingAnswer, WaitingMark

        self._mark = WaitingMark(store.desk_files(task_id, run_id), question.seq)
        self._mark.__enter__()
        try:  # the bell last: it wakes again a process that the mark's file woke before it was locked
            self._pending = PendingAnswer(store, task_id, question)
        except BaseException:
            self._mark.__exit__()
            raise
        self.fd = self._pending.fd

    def answer(self) -> str | None:
        return self._pending.answer()

    def end(self) -> None:
        self._mark.__exit__()
        self._pending.__exit__()
