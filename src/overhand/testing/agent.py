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

import sys

from overhand.testing.script import Script, say


def main(actions: list[str]) -> None:
    """Do every action in order; one that does not exist is refused before anything is done."""
    if "--help" in actions or "-h" in actions:
        say((__doc__ or "").rstrip())
        return
    for action in actions:
        if not hasattr(Script, "do_" + action.partition(":")[0].replace("-", "_")):
            print(f"overhand.testing.agent: no action {action!r}; --help lists them.", file=sys.stderr)
            sys.exit(2)
    script = Script()
    for action in actions or ["output"]:
        script.do(action)


if __name__ == "__main__":
    main(sys.argv[1:])
