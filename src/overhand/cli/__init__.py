"""The command line: words in, verb, text or JSON out. Only the chosen verb is imported."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from overhand.errors import OverhandError
    from overhand.verbs import Reply, Verb


def program() -> NoReturn:
    """Run the command and exit at once: the regular shutdown of an interpreter takes milliseconds."""
    gc.set_threshold(100_000)  # most commands end before there is anything worth collecting
    code = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        sys.exit(code)  # closed, or full: Python reports it
    threads = sys.modules.get("threading")
    if threads is not None and threads.active_count() > 1:
        sys.exit(code)  # it waits for them
    os._exit(code)


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    from overhand.errors import OverhandError

    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words[: words.index("--") if "--" in words else None]
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")  # what cannot be written must not end the verb
    progress = _Progress()
    try:
        return _run(words, progress, as_json=as_json)
    except OverhandError as error:
        progress.clear()
        return _say_error(error, as_json=as_json)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader has closed the pipe; Python would complain at exit
        return 0
    except OSError as error:
        from overhand.errors import storage_failed

        progress.clear()
        return _say_error(storage_failed(error, "That did not work"), as_json=as_json)
    except Exception as error:  # a bug: reported like any other error, the trace on request
        if os.environ.get("OVERHAND_TRACEBACK"):
            raise
        progress.clear()
        hint = "This is a mistake in Overhand; OVERHAND_TRACEBACK=1 in front of the same command shows where."
        return _say_error(OverhandError(f"{type(error).__name__}: {error}", hint), as_json=as_json)


def _run(words: list[str], progress: _Progress, *, as_json: bool) -> int:
    from overhand.verbs import open_session
    from overhand.cli.parse import parse
    from overhand.system import home_of_run

    parsed = parse(words)
    if parsed.help:
        from overhand.cli.parse import overview, verb_help

        print(verb_help(parsed.verb) if not parsed.bare else overview())
        return 0
    verb = parsed.verb
    there = not as_json and sys.stdout.isatty() and sys.stdin.isatty()  # a person can be asked
    here = "." if verb.name == "init" and not home_of_run() else None  # it means this folder
    session = open_session(
        parsed.project or here,
        "cli",
        interactive=there,
        tell=_silent if as_json else progress.tell,
        progress=_silent if as_json and not sys.stderr.isatty() else progress.show,
        confirm=_confirm if there else None,
        read=_read if there else None,
    )
    session.plain = not as_json
    if there and verb.name == "status" and parsed.values.get("watch"):
        from overhand.cli import screen

        return screen.watch(session, all=parsed.values.get("all", False))
    if verb.name == "plan" and sys.stderr.isatty() and not as_json:
        from overhand.cli.plan import Picture

        session.draw = Picture().draw
    from overhand.verbs import call_verb

    answer = call_verb(verb, session, parsed.values)
    progress.clear()
    if session.store.note:
        session.tell(session.store.note)
    return _print(verb, answer, as_json=as_json)


def _confirm(question: str) -> bool:
    from overhand.cli.text import printable

    return input(f"{printable(question)} [y/N] ").strip().lower() in ("y", "yes")


def _read(prompt: str) -> str | None:
    """A line from a person; None at the end of input."""
    from overhand.cli.text import printable

    try:
        return input(printable(prompt))
    except EOFError:
        return None


def _silent(_text: str) -> None:
    """Under --json only the one object is printed."""


class _Progress:
    """Lines on standard error beside the answer, of which the progress line replaces itself."""

    def __init__(self) -> None:
        self._shown = ""

    def tell(self, text: str) -> None:
        from overhand.cli.text import printable

        self.clear()
        sys.stderr.write(f"{printable(text)}\n")
        sys.stderr.flush()

    def show(self, text: str) -> None:
        """What is going on: one line that changes on a terminal, one line per change elsewhere."""
        from overhand.cli.text import one_line, terminal

        live = sys.stderr.isatty()
        text = one_line(text, terminal(2).columns - 1 if live else 1000)
        if not text or text == self._shown:
            return
        if live:
            sys.stderr.write(f"\r\x1b[K{text}")
        elif _steady(text) != _steady(self._shown):
            sys.stderr.write(f"{text}\n")
        self._shown = text
        sys.stderr.flush()

    def clear(self) -> None:
        if self._shown and sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        self._shown = ""


def _steady(text: str) -> str:
    """Without the numbers that change all the time."""
    return "".join(c for c in text.split(" · ", maxsplit=1)[0] if not c.isdigit())


def _print(verb: Verb, answer: Reply, *, as_json: bool) -> int:
    try:
        return _print_all(verb, answer, as_json=as_json)
    finally:
        if close := getattr(answer.stream, "close", None):
            close()  # its end may have something to clean up, also where nobody reads the rest


def _print_all(verb: Verb, answer: Reply, *, as_json: bool) -> int:
    if as_json:
        for item in answer.stream if answer.stream is not None else ():
            print(_as_json({"schema": answer.payload["schema"], **item}), flush=True)
        if answer.stream is None:
            print(_as_json(answer.payload, indent=1 if sys.stdout.isatty() else None))
    else:
        from overhand.cli.text import lines

        if "patch" in answer.payload:
            from overhand.cli import review

            review.paged(review.diff(answer.payload))
            return answer.code
        for line in lines(verb.name, answer):
            print(line, flush=answer.stream is not None)
        for line in answer.payload.get("unmet", ()):
            print(line)
    sys.stdout.flush()
    return answer.code


def _as_json(value: dict[str, Any], indent: int | None = None) -> str:
    """On one line it needs no `json`, which takes longer to import than many a verb to run."""
    if indent is None and _writes_unicode():
        from overhand.system import dump_spaced

        return dump_spaced(value)
    import json

    return json.dumps(value, ensure_ascii=not _writes_unicode(), indent=indent)


def _writes_unicode() -> bool:
    return sys.stdout.encoding.lower().replace("-", "") == "utf8"


def _say_error(error: OverhandError, *, as_json: bool) -> int:
    if as_json:
        import json

        print(json.dumps(error.as_json(), ensure_ascii=not _writes_unicode()))
    else:
        from overhand.cli.text import printable

        sys.stderr.write(f"overhand: {printable(error.message)}\n")
        if error.hint:
            sys.stderr.write(f"  {printable(error.hint)}\n")
    sys.stderr.flush()
    return error.exit_status
