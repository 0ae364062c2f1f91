"""A scripted agent: a program that does what its arguments say, one after the other.

    python -m overhand.testing.agent [ACTION ...]          (no action: output)

It is given what every agent is given: the prompt on stdin, `OVERHAND_*` in the environment, the project as
its working directory. In a PATH, `$NAME` is replaced from the environment; in CONTENT and TEXT, `\\n` is a
newline. KEY is one of status, summary, title, file.

Results
  output[:KEY=TEXT,...]      a good OUTPUT.md naming the files written so far
  top-output[:KEY=TEXT,...]  the same into the task's folder instead of the run's
  clumsy                     a good result in a badly formed OUTPUT.md; clumsy:prose has no form at all
  rubbish                    an OUTPUT.md full of nonsense
  claim:PATH                 an OUTPUT.md that claims to be completed and names a file that it did not write
  result[:KEY=TEXT,...]      result.json instead of OUTPUT.md
  stdout-json[:FORM]         the return as JSON on stdout (FORM: fenced, prose)
  data:JSON                  data.json
Work
  file:PATH[=CONTENT]        write a file
  touch:PATH                 make an empty file, for a test that waits for it
  step:N[=MARK]              mark the Nth step of the HANDOFF's Plan (MARK: x, ?, !)
  ask:QUESTION               ask by a file, wait for the answer, print it
  overhand-ask:QUESTION[=A|B]  `overhand ask`, again for as long as it says so: print the answer, then `exit=CODE`
  ask-once:QUESTION[=A|B]    one call of `overhand ask --json`: print its JSON, then `exit=CODE`
  delegate:AGENT:TITLE       `overhand delegate --wait --json`: print its JSON, then `exit=CODE`
  print:TEXT  stderr:TEXT    write a line
  echo-prompt  echo-env      print the prompt; print the OVERHAND_* variables
  flood[:BYTES]              that much on stdout (4k, 10m), without a number until killed
Waiting and ending
  hang                       until killed
  sleep:SECONDS              for a while
  until:PATH                 until the file exists; if it is a FIFO, until somebody writes to it
  exit:CODE                  end at once
  die:SIGNAL                 end by a signal (die:KILL)
Bad manners
  ignore-term[:PATH]         survive SIGTERM and note each in $OVERHAND_WORKSPACE/term; later strays ignore it
  unset-env                  drop every OVERHAND_* variable, for itself and for what it starts later
  spawn:KIND[:PATH]          leave processes behind that sleep until killed, their pids added to PATH
                             ($OVERHAND_WORKSPACE/pids): child, grandchild, double-fork, setsid, clean-env
                             (no environment), daemon (all of it at once, and no file left open)
"""

from __future__ import annotations

import os
import stat
import sys
import time

from overhand.testing import returns

KEYS = ("status", "summary", "title", "file")


class Script:
    """One scripted agent at work: what it was given, and what it has done so far."""

    def __init__(self) -> None:
        # Kept apart from os.environ, so that `output` still works after `unset-env`.
        self.given = {name: value for name, value in os.environ.items() if name.startswith("OVERHAND_")}
        self.files: list[str] = []
        self.stubborn = False

    def place(self, name: str) -> str:
        """The path in this variable; exits with a message if the agent was started without it."""
        if name not in self.given:
            sys.exit(f"overhand.testing.agent: {name} is not set; a run sets it, or set it yourself.")
        return self.given[name]

    def options(self, rest: str) -> dict[str, str]:
        """`KEY=TEXT,KEY=TEXT` as a dictionary; a comma that no KEY follows belongs to the text."""
        options: dict[str, str] = {}
        key = "summary"
        for part in rest.split(",") if rest else ():
            head, equals, text = part.partition("=")
            if equals and head in KEYS:
                key, options[head] = head, text
            else:
                options[key] = f"{options[key]},{part}" if key in options else part
        return options

    # ---- results

    def do_output(self, rest: str) -> None:
        write(self.place("OVERHAND_OUTPUT"), self.output(rest))

    def do_top_output(self, rest: str) -> None:
        write(self.place("OVERHAND_WORKSPACE") + "/OUTPUT.md", self.output(rest))

    def output(self, rest: str) -> str:
        options = self.options(rest)
        files = [*self.files, *([options.pop("file")] if "file" in options else [])]
        title = options.pop("title", "") or task_title(self.given.get("OVERHAND_HANDOFF", ""))
        return returns.output_md(title, agent_name(self.given.get("OVERHAND_TASK", "")), files=files, **options)

    def do_clumsy(self, rest: str) -> None:
        text = returns.prose(self.files) if rest == "prose" else returns.clumsy_md(self.files)
        write(self.place("OVERHAND_OUTPUT"), text)

    def do_rubbish(self, _: str) -> None:
        with open(self.place("OVERHAND_OUTPUT"), "wb") as file:
            file.write(returns.RUBBISH)

    def do_claim(self, rest: str) -> None:
        self.do_output(f"summary=Wrote {rest} and tested it.,file={rest}")

    def do_result(self, rest: str) -> None:
        write(self.place("OVERHAND_RESULT"), self.return_json(rest))

    def do_stdout_json(self, rest: str) -> None:
        say(returns.JSON_FORMS[rest].format(self.return_json("")))

    def return_json(self, rest: str) -> str:
        import json

        options = self.options(rest)
        files = [*self.files, *([options["file"]] if "file" in options else [])]
        status, summary = options.get("status", "completed"), options.get("summary", returns.SUMMARY)
        return json.dumps(returns.return_json(status, summary, files))

    def do_data(self, rest: str) -> None:
        write(self.place("OVERHAND_DATA"), rest)

    # ---- work

    def do_file(self, rest: str) -> None:
        path, _, content = rest.partition("=")
        path = os.path.expandvars(path)
        write(path, unescape(content) or "scripted\n")
        self.files.append(path)

    def do_touch(self, rest: str) -> None:
        write(os.path.expandvars(rest), "")

    def do_step(self, rest: str) -> None:
        number, _, mark = rest.partition("=")
        path = self.place("OVERHAND_HANDOFF")
        with open(path, encoding="utf-8", newline="") as file:
            lines = file.read().splitlines(keepends=True)
        plan = next(i for i, line in enumerate(lines) if line.strip() == "## Plan")
        steps = [i for i, line in enumerate(lines) if i > plan and "[" in line[:6] and "]" in line[:9]]
        line = lines[steps[int(number) - 1]]
        at = line.index("[") + 1
        lines[steps[int(number) - 1]] = f"{line[:at]}{mark or 'x'}{line[at + 1 :]}"
        write(path, "".join(lines))

    def do_ask(self, rest: str) -> None:
        ipc = self.place("OVERHAND_WORKSPACE") + "/ipc"
        say(returns.await_answer(ipc, returns.ask(ipc, rest)))

    def do_overhand_ask(self, rest: str) -> None:
        import json

        code, out = self.overhand_ask(rest)
        while code == 124:
            code, out = overhand("ask", "--json", "--again", str(json.loads(out)["error"]["seq"]))
        say(f"{json.loads(out).get('answer', out)}\nexit={code}")

    def do_ask_once(self, rest: str) -> None:
        code, out = self.overhand_ask(rest)
        say(f"{out}\nexit={code}")

    def overhand_ask(self, rest: str) -> tuple[int, str]:
        question, _, options = rest.partition("=")
        given = [f"--option={option}" for option in options.split("|") if option]
        return overhand("ask", "--json", *given, "--", question)

    def do_delegate(self, rest: str) -> None:
        agent, _, title = rest.partition(":")
        code, out = overhand("delegate", "--agent", agent, "--wait", title, "--json")
        say(f"{out}\nexit={code}")

    def do_print(self, rest: str) -> None:
        say(unescape(rest))

    def do_stderr(self, rest: str) -> None:
        print(unescape(rest), file=sys.stderr, flush=True)

    def do_echo_prompt(self, _: str) -> None:
        say(sys.stdin.read())

    def do_echo_env(self, _: str) -> None:
        say("\n".join(f"{name}={os.environ[name]}" for name in sorted(os.environ) if name in self.given))

    def do_flood(self, rest: str) -> None:
        line = b"All work and no play makes a scripted agent dull.\n" * 1024
        left = size(rest) if rest else float("inf")
        while left > 0:
            left -= os.write(1, line[: int(min(left, len(line)))])

    # ---- waiting and ending

    def do_hang(self, _: str) -> None:
        import signal

        while True:
            signal.pause()

    def do_sleep(self, rest: str) -> None:
        time.sleep(float(rest))

    def do_until(self, rest: str) -> None:
        path = os.path.expandvars(rest)
        while not os.path.exists(path):
            time.sleep(0.01)
        if stat.S_ISFIFO(os.stat(path).st_mode):
            with open(path, "rb") as fifo:
                fifo.read(1)

    def do_exit(self, rest: str) -> None:
        sys.exit(int(rest or 0))

    def do_die(self, rest: str) -> None:
        import signal

        os.kill(os.getpid(), getattr(signal, f"SIG{rest or 'KILL'}"))
        self.do_hang("")

    # ---- bad manners

    def do_ignore_term(self, rest: str) -> None:
        import signal

        path = os.path.expandvars(rest) or self.place("OVERHAND_WORKSPACE") + "/term"
        signal.signal(signal.SIGTERM, lambda *_: write(path, "TERM\n", how="a"))
        self.stubborn = True

    def do_unset_env(self, _: str) -> None:
        for name in self.given:
            os.environ.pop(name, None)

    def do_spawn(self, rest: str) -> None:
        from overhand.testing import processes

        kind, _, path = rest.partition(":")
        if kind not in processes.KINDS:
            sys.exit(f"overhand.testing.agent: no spawn:{kind}; there are {', '.join(processes.KINDS)}.")
        pids = os.path.expandvars(path) or self.place("OVERHAND_WORKSPACE") + "/pids"
        processes.spawn(kind, pids, stubborn=self.stubborn)


def overhand(*words: str) -> tuple[int, str]:
    """Call the command from inside the run; its exit status and what it printed."""
    import subprocess

    child = subprocess.run([sys.executable, "-m", "overhand", *words], stdout=subprocess.PIPE, text=True, check=False)
    return child.returncode, child.stdout.strip()


def task_title(handoff: str) -> str:
    """The first line of the HANDOFF's Task, as a title."""
    try:
        with open(handoff, encoding="utf-8", errors="replace") as file:
            after = file.read().partition("## Task\n")[2]
    except OSError:
        return "scripted work"
    return next((line.strip() for line in after.splitlines() if line.strip()), "scripted work")


def agent_name(task_id: str) -> str:
    """The agent's name out of `{agent}-{YYYYMMDD}-{HHMMSS}`."""
    parts = task_id.split("-")
    date = next((i for i, part in enumerate(parts) if len(part) == 8 and part.isdigit()), len(parts))
    return "-".join(parts[:date]) or "scripted"


def size(text: str) -> int:
    """`4096`, `4k`, `10m` in bytes."""
    unit = {"k": 1024, "m": 1024 * 1024}.get(text[-1:].lower())
    return int(text[:-1]) * unit if unit else int(text)


def unescape(text: str) -> str:
    return text.replace("\\n", "\n")


def write(path: str, text: str, how: str = "w") -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, how, encoding="utf-8", newline="") as file:
        file.write(text)


def say(text: str) -> None:
    """Print at once: what a test or a supervisor waits for must not sit in a buffer."""
    print(text, flush=True)


def main(actions: list[str]) -> None:
    """Do every action in order; one that does not exist is refused before anything is done."""
    if "--help" in actions or "-h" in actions:
        say((__doc__ or "").rstrip())
        return
    script = Script()
    steps = []
    for action in actions or ["output"]:
        name, _, rest = action.partition(":")
        do = getattr(script, "do_" + name.replace("-", "_"), None)
        if do is None:
            print(f"overhand.testing.agent: no action {action!r}; --help lists them.", file=sys.stderr)
            sys.exit(2)
        steps.append((do, rest))
    for do, rest in steps:
        do(rest)


if __name__ == "__main__":
    main(sys.argv[1:])
