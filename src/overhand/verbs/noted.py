"""The rows of the verbs for what is written down: tags, items and plans; table.py has all the others."""

from __future__ import annotations

from overhand.verbs import Arg, Verb

PLAN_DO = ("check", "new", "run", "show", "graph")
ITEM_DO = ("list", "approve", "next", "claim", "done", "needs", "dismiss", "new")

NOTED = (
    Verb(
        "tag",
        "for scripts",
        "tags in Markdown files: add, remove, swap, find, or wait for one",
        "overhand.verbs.tag:tag",
        words=(
            Arg(
                "DO",
                "what to do",
                value="add|remove|swap|find|await",
                choices=("add", "remove", "swap", "find", "await"),
            ),
            Arg(
                "WORD",
                "FILE TAG · swap: FILE OLD[,OLD2] NEW · find: TAG [PATH], with * for anything",
                value="FILE TAG",
                many=True,
                optional=True,
            ),
        ),
        options=(
            Arg("--context", "so many lines around each hit; without N, 2", value="N", bare="2"),
            Arg("--tags-only", "only tags on a Tags line, not those in the text"),
            Arg("--files", "only the names of the files"),
            Arg("--no-ignore", "also what .gitignore leaves out"),
            Arg("--timeout", "await: give up after this long (exit 124)", value="TIME"),
        ),
        about="Write tags in quotes: '#needs-fix'. A tag in backticks, a fence, an HTML comment or front matter is a "
        "mention and not touched. FILE:LINE means the tag of that line. When several swap the same tag, one of them "
        "succeeds and the others end with 3.",
    ),
    Verb(
        "item",
        "for scripts",
        "work that is noted in Markdown: list it, approve it, take it, close it",
        "overhand.verbs.item:item",
        words=(
            Arg("DO", "what to do", value="DO", choices=ITEM_DO, optional=True),
            Arg(
                "ITEM",
                "path#kind or path:line#kind; for next: a kind; for new: a kind and a title",
                value="ITEM",
                many=True,
                optional=True,
            ),
        ),
        options=(
            Arg("--all", "approve: all that wait; list: what is done as well"),
            Arg("--kind", "only items of this kind", value="KIND"),
            Arg("--again", "approve what was tried before, as a new task"),
            Arg("--next", "approve for the next `item next`, not for the supervisor"),
            Arg("--summary", "done: what was done", value="TEXT"),
            Arg("--what", "new: what is to be done (else the title)", value="TEXT"),
            Arg("--why", "new: why it is wanted", value="TEXT"),
            Arg("--context", "new: what one must know", value="TEXT"),
            Arg("--expect", "new: something to deliver", value="PATH|TEXT", many=True),
            Arg("--criterion", "new: how one sees that it is done", value="TEXT", many=True),
            Arg("--priority", "new: its weight", value="P", choices=("P0", "P1", "P2", "P3")),
            Arg("--effort", "new: how much work it is", value="E", choices=("S", "M", "L")),
        ),
        about="A tag such as #needs-fix makes a line, or with a Tags line a whole file, an item. Approving one makes a "
        "task, whose id then stands behind the tag; from then on the tag shows where the task is: #delegated-fix, "
        "#claimed-fix, #done-fix. Only a person approves. Without an item, `approve` walks through all that wait.",
    ),
    Verb(
        "plan",
        "for scripts",
        "several tasks that hand results to each other: check a plan file, write one, run it, see it",
        "overhand.verbs.plan:plan",
        words=(
            Arg("DO", "what to do", value="|".join(PLAN_DO), choices=PLAN_DO),
            Arg(
                "FILE|ID",
                "check, run: the plan file, or - · new: what is to be done, in quotes · show: a task · graph: either",
                value="FILE|ID",
                optional=True,
            ),
        ),
        options=(
            Arg("--explain", "check: how the score came about, and in which waves the nodes would run"),
            Arg("--strict", "check, run: warnings count as errors"),
            Arg("--stdin", "check, run: read the plan from standard input"),
            Arg("--agents", "new: who takes part, such as a,b,c (else by their capabilities)", value="NAMES"),
            Arg(
                "--template",
                "new: one of the delegation templates instead of the short form",
                value="NAME",
                choices=("standard", "parallel", "sequential"),
            ),
            Arg(
                "--strategy",
                "new: how the nodes depend on each other (else by the score)",
                value="NAME",
                choices=("parallel", "sequential", "pipeline", "fan-out-fan-in"),
            ),
            Arg("--out", "new, graph: the file to write, - prints it", value="FILE"),
            Arg("--wait", "run: show how it goes, and wait for the result", short="-w"),
            Arg("--max-parallel", "run: so many nodes at once, at most", value="N"),
            Arg("--dry-run", "run: only say what would run when, by whom and within which limits"),
            Arg("--budget", "run: what all nodes together may use, such as 500k tokens, $5, or both", value="AMOUNT"),
            Arg("--timeout", "run: how long the whole plan may take, such as 2h", value="TIME"),
            Arg("--set", "run: a setting for this plan only", value="KEY=VALUE", many=True),
            Arg("--watch", "show: stay until it is judged, and draw it again whenever it changes"),
            Arg("--format", "show: text, yaml or json · graph: mermaid, dot or svg", value="FORMAT"),
        ),
        about="Everything that is wrong with a plan is told before anything runs. A plan is a task with a receipt, and "
        "so is each of its nodes: show, log, answer, send, stop and resume work on them. A plan file of the project "
        "runs once it is trusted: overhand trust FILE.",
    ),
    Verb(
        "alert",
        "for scripts",
        "tell everybody who begins to work what is different for a while",
        "overhand.verbs.alert:alert",
        words=(
            Arg("DO", "what to do", value="raise|resolve|list", choices=("raise", "resolve", "list")),
            Arg(
                "TITLE", "one sentence; to resolve: a part of it, or the file", value="TITLE", many=True, optional=True
            ),
        ),
        options=(
            Arg("--what", "what changed", value="TEXT"),
            Arg("--impact", "what does not work because of it", value="TEXT"),
            Arg("--duration", "how long it will probably last", value="TEXT"),
            Arg("--workaround", "what to do meanwhile; goes with the title into every new HANDOFF.md", value="TEXT"),
            Arg("--note", "how it ended", value="TEXT"),
            Arg("--all", "resolved ones as well"),
        ),
        about="An alert is a file in alerts/ with the tag #active-alert; it is in force until its tag is #done-alert.",
    ),
    Verb(
        "daemon",
        "for scripts",
        "watch tags in Markdown and start what is approved",
        "overhand.verbs.daemon:daemon",
        words=(
            Arg(
                "DO",
                "what to do; nothing: watch for as long as you look on",
                value="DO",
                choices=("start", "stop", "status", "log", "install"),
                optional=True,
            ),
        ),
        options=(
            Arg("--follow", "log: wait for more", short="-f"),
            Arg("--print", "install: a systemd unit and a launchd plist that leave agents alive"),
        ),
        about="It is the project's supervisor with tags switched on and no end: a file that has been left alone for 3 "
        "seconds is looked at, a #delegated tag on its Tags line is started within the caps, and a run that was lost "
        "is tried again. Stopping it stops no agent.",
    ),
)
