"""One table of verbs: it feeds the parser, the help, the completion and the reference page."""

from __future__ import annotations

from overhand.verbs.verb import Arg, Verb
from overhand.words import CLAIMS

ID = Arg("ID", "a task: its number, a part of its title, its id, or - for the last one")
IDS = Arg("ID", ID.help, many=True)

REQUIRE = Arg(
    "--require WORD", "exit 1, with the reason, if the result is verified less than this", choices=("passing", "proved")
)
ITEM_DO = ("list", "approve", "next", "claim", "done", "needs", "dismiss", "new")

DELEGATE = (
    Arg("--agent NAME", "who does it (else the default agent)"),
    Arg("--kind KIND", "what kind of work: research, plan, fix, review, … (times, level and contract come with it)"),
    Arg("--context TEXT", "background the agent needs; refer to files instead of pasting them", many=True),
    Arg("--file PATH", "a key file, optionally with a reason: path=why", many=True),
    Arg("--constraint TEXT", "something to keep to", many=True),
    Arg("--deliverable PATH|TEXT", "what must be there afterwards: a path, or a sentence", many=True),
    Arg("--return TEXT", "what the answer must tell", many=True),
    Arg("--step TEXT", "a step of the plan", many=True),
    Arg("--verify CMD", "a command that must succeed afterwards; run by Overhand before and after", many=True),
    Arg("--handoff FILE", "take the HANDOFF from a file, or - for standard input"),
    Arg("--edit", "open the HANDOFF in $EDITOR before it starts"),
    Arg("--no-start", "only prepare the task; start it later with `overhand run`"),
    Arg("--wait", "wait for the result and show progress", short="-w"),
    REQUIRE,
    Arg("--timeout TIME", "how long the run may take, such as 30m"),
    Arg("--budget AMOUNT", "what it and all below it may use, such as 200k tokens, $5, or both"),
    Arg("--priority P", "order in the queue", choices=("P0", "P1", "P2", "P3")),
    Arg(
        "--contract NAME|FILE", "DOCUMENT_ANALYSIS, RESEARCH_OUTPUT, REVIEW_OUTPUT, or a JSON Schema file for the data"
    ),
    Arg("--model NAME", "passed on to the agent"),
    Arg(
        "--level LEVEL",
        "what it may do: read, work (edit and run commands here), full (whatever it wants)",
        choices=("read", "work", "full"),
    ),
    Arg("--read-only", "the agent may only read: --level read"),
    Arg("--here", "work in your own checkout instead of a tree"),
    Arg("--base REF|ID", "begin from a commit, or from the result of a task"),
    Arg("--committed", "leave your uncommitted files out of its tree"),
    Arg("--session AGENT:ID", "go on in a session that was started elsewhere, such as claude:ID"),
    Arg("--after ID", "start when that task is judged completed"),
    Arg("--set KEY=VALUE", "a setting for this task only", many=True),
    Arg("--strict", "warnings count as errors"),
)

GLOBAL_ARGS = (
    Arg("--json", "one JSON object instead of text (JSON lines for streams)"),
    Arg("--project DIR", "the project folder (else the one around you)", short="-C"),
    Arg("--help", "show this", short="-h"),
)

EVERYDAY = (
    Verb(
        "status",
        "what needs you, what works, what is ready",
        options=(
            Arg("--watch", "stay, and show it again whenever it changes"),
            Arg("--all", "every project of yours, not only this one"),
        ),
        aliases=("inbox",),
    ),
    Verb(
        "delegate",
        "hand a task to an agent",
        "overhand.verbs.delegate:delegate_task",
        words=(Arg("TITLE", "what to do", optional=True),),
        options=DELEGATE,
        aliases=("dispatch",),
        about="Returns at once; the work goes on without this terminal. `overhand wait -` waits for it, "
        "`overhand show -` shows the checked result.",
    ),
    Verb(
        "answer",
        "answer a question; without words, walk through all that wait",
        "overhand.verbs.ask:answer",
        words=(
            Arg("ID", ID.help, optional=True),
            Arg(
                "TEXT",
                "the answer; before it the question's number, if several are open",
                value="[SEQ] TEXT",
                many=True,
                optional=True,
            ),
        ),
        options=(Arg("--no-resume", "record the answer, but do not start a parked task again"),),
        about="A question is answered once. If the task was parked, answering its last open question starts the next "
        "run by itself.",
    ),
    Verb(
        "send",
        "tell an agent something: with its next turn, or in a new run",
        "overhand.verbs.send:send_message",
        words=(ID, Arg("TEXT", "what it is to know", many=True, optional=True)),
        options=(Arg("--file FILE", "take the message from a file, or - for standard input"),),
        about="A finished agent goes on with it in its own session, in the same task, and is judged again. Coding "
        "agents take no message in the middle of their work; they get it as soon as their run ends.",
    ),
    Verb(
        "show",
        "a task and its receipt: claimed, checked, look at",
        words=(ID,),
        options=(
            Arg("--output", "print its OUTPUT.md and nothing else"),
            Arg("--path", "print the folders of its workspace and its record, a line each, and nothing else"),
            Arg("--report", "the report of its last run: commands, deliverables, checks, handoff, tokens"),
            Arg("--diff", "what it changed in its tree: the same as `overhand diff`"),
        ),
    ),
    Verb(
        "merge",
        "land what tasks did in their trees",
        words=(Arg("ID", ID.help, many=True),),
        options=(
            Arg("--dry-run", "merge and check, and land nothing"),
            Arg("--into BRANCH", "onto this branch, which is made if need be, instead of your checkout"),
            Arg("--anyway", "also what is not completed, or fails on the merged tree; the message says so"),
            Arg("--require WORD", "only what is verified this far: passing or proved"),
        ),
        about="Each task's checks run on the merged tree first, and only what holds there becomes a commit in your "
        "checkout. Files that you have changed yourself and that are not concerned don't matter. Of several tasks each "
        "lands on the one before; the first that cannot be landed ends it. The command that undoes it is printed.",
    ),
    Verb(
        "diff",
        "what a task changed in its tree",
        words=(ID, Arg("PATH", "only these files and folders", many=True, optional=True)),
        options=(Arg("--stat", "only the files, and how many lines"),),
        about="Only the agent's part: what you had not committed when it began is left out. Of a task that is still at "
        "work it shows the files as they stand.",
    ),
    Verb(
        "stop",
        "stop a task and everything its run started",
        "overhand.verbs.control:stop_tasks",
        words=(Arg("ID", ID.help, many=True, optional=True),),
        options=(
            Arg("--all", "every task that is queued or at work"),
            Arg("--now", "without waiting for the agent to end by itself"),
        ),
        aliases=("cancel",),
    ),
    Verb(
        "resume",
        "go on with a task that ended short",
        "overhand.verbs.resume:resume_task",
        words=(ID,),
        options=(
            Arg("--answer TEXT", "the answer to its open question, or a word to go on with"),
            Arg("--from CKPT", "a checkpoint of this task, or latest"),
            Arg("--agent NAME", "another agent takes over"),
            Arg("--open", "open its own session on this terminal; it is judged again when you leave"),
            Arg("--budget AMOUNT", "a new budget, for all its runs together"),
            Arg("--wait", "wait for the result", short="-w"),
        ),
        about="A new run of the same task: steps that are done stay done, and its HANDOFF.md tells what the last run "
        "left. See what can be resumed: overhand list --resumable",
    ),
)
SET_UP = (
    Verb("init", "make this folder an Overhand project", "overhand.verbs.setup:init"),
    Verb(
        "agents",
        "the agents of this project, and the agent programs of this machine",
        words=(
            Arg(
                "NAME",
                "only this one, or those with these words; or `test NAME`: try it out",
                value="[test] NAME",
                many=True,
                optional=True,
            ),
        ),
        options=(
            Arg("--example", "print an agent file to start from"),
            Arg("--unpause", "use this program again at once, although its provider's limit was reached"),
        ),
        about="`overhand agents test NAME` hands it one tiny task that only reads, and says what came of it. Whether a "
        "program is logged in is told from variables that are set and files that are there; they are never read.",
    ),
    Verb(
        "trust",
        "allow this project's agents, checks and settings to run",
        "overhand.verbs.setup:trust_project",
        words=(Arg("FILE", "only these, such as a plan file", many=True, optional=True),),
        options=(Arg("--yes", "without asking", short="-y"),),
        person=True,
        about="Trust is bound to the content of these files: a change asks again. "
        "It is kept in your own configuration folder.",
    ),
    Verb(
        "connect",
        "let a coding client delegate through Overhand's MCP server",
        words=(Arg("CLIENT", "claude, codex, gemini or opencode", choices="overhand.verbs.connect:clients"),),
        options=(
            Arg("--write", "add it to the client's own configuration"),
            Arg("--remove", "take it back out"),
            Arg("--here", "for this project only: the configuration in its folder"),
            Arg("--plugin DIR", "write a Claude Code plugin with /dispatch and a skill into this folder"),
        ),
        person=True,
        about="Without --write it only prints what belongs into which file. Only our own entry is ever touched, and "
        "what was there before is kept beside it once.",
    ),
    Verb(
        "doctor",
        "what is not as it should be here, why it matters, and what to type",
        options=(Arg("--fix", "offer to mend what can be mended without losing anything; asks before each step"),),
        about="Looks at tools, locks, settings, agents, runs, claims, requests, worktrees and sizes. Exit status 1 if "
        "it found a problem. It never removes anything.",
    ),
    Verb(
        "dismiss",
        "put aside what you want to hear no more of",
        "overhand.verbs.control:dismiss",
        words=(Arg("ID", "tasks, or items as path#kind", many=True),),
        person=True,
        about="A failed, blocked or unseen task goes to the group done, and so does one that was never started. "
        "Nothing is removed, and resume takes it back. An item that is not approved loses its tag.",
    ),
    Verb(
        "clean",
        "remove finished tasks that were seen",
        "overhand.verbs.control:clean",
        options=(
            Arg("--older TIME", "how long ago they ended (7d)"),
            Arg("--gone", "remove the records of projects whose folder no longer exists instead"),
            Arg("--dry-run", "only say what would go"),
            Arg("--yes", "without asking", short="-y"),
        ),
        person=True,
        about="Removes tasks that ended more than 7 days ago. What nobody has looked at stays, "
        "and so does what a run still holds.",
    ),
    Verb(
        "demo",
        "see it work, in a minute, without keys or a server",
        "overhand.verbs.setup:demo",
        options=(Arg("--keep", "keep the demo's project folder"),),
        project=False,
    ),
    Verb(
        "projects",
        "the projects that have a record here, and where it is",
        "overhand.verbs.setup:projects",
        project=False,
        about="Records lie in the state folder, $XDG_STATE_HOME/overhand or OVERHAND_STATE. Those of projects that are "
        "gone are removed by: overhand clean --gone",
    ),
    Verb("version", "print the version", "overhand.verbs.setup:version", project=False),
    Verb(
        "completion",
        "a completion script for your shell",
        "overhand.verbs.setup:completion",
        words=(Arg("SHELL", "bash, zsh or fish", value="SHELL", choices=("bash", "zsh", "fish")),),
        project=False,
    ),
)
FOR_AGENTS = (
    Verb(
        "ask",
        "ask a person from inside a run, and wait for the answer",
        words=(Arg("QUESTION", "what you need to know", optional=True),),
        options=(
            Arg("--option TEXT", "an answer to choose from", many=True),
            Arg("--closed", "only one of the options will do"),
            Arg("--step TEXT", "the step of the plan that waits for it"),
            Arg("--again SEQ", "wait on for a question that was asked before"),
            Arg("--timeout TIME", "how long to block (100s, or what the agent's file says)"),
        ),
        about="Prints the answer. If none came in time it ends with 124 and says how to wait on; the question stays.",
    ),
    Verb(
        "step",
        "mark a step of the plan in HANDOFF.md, or show the plan",
        words=(
            Arg("ID", "a task; only outside a run, inside one its own is meant", optional=True),
            Arg("STEP", "the step's number, or a part of its text", value="N|TEXT", optional=True),
            Arg(
                "STATE",
                "done, doing, blocked, error or open; words after error are the reason",
                many=True,
                optional=True,
            ),
        ),
        options=(
            Arg("--phase PHASE", "move the task to another phase (INITIATE, IDENTIFY, …), or name why it failed"),
            Arg("--reason TEXT", "what went wrong, for an error"),
            Arg("--question SEQ", "the question that a blocked step waits for"),
        ),
        about="Changes the marker and not another byte, also while somebody else writes to the file. "
        "Editing the file yourself is just as good.",
    ),
    Verb(
        "checkpoint",
        "save where a task stands, list such points, show one",
        words=(
            Arg("DO", "create, list or show", choices=("create", "list", "show")),
            Arg("ID", "a task (inside a run: its own), or a checkpoint to show", value="ID|CKPT", optional=True),
        ),
        options=(
            Arg("--reason TEXT", "why now"),
            Arg("--handoff HOW", "how much to write down", choices=("quick", "full")),
            Arg("--name NAME", "its name: ckpt_NAME (else from the task's title)"),
            Arg("--git-tag", "put a git tag of that name on the current commit"),
        ),
        about="Go on from one with: overhand resume ID --from CKPT. Files are never rolled back.",
    ),
    Verb(
        "finish",
        "return the result of a run: write its OUTPUT.md, once nothing is wrong with it",
        "overhand.verbs.finish_run:finish",
        options=(
            Arg("--status STATUS", "how it ended", choices=CLAIMS),
            Arg("--summary TEXT", "one to three sentences: what is true now"),
            Arg("--title TEXT", "a short title (else the task's)"),
            Arg("--deliverable PATH=WHAT", "a file that was asked for, and what it is: path=what", many=True),
            Arg("--decision WHAT=WHY", "something that was decided: what=why", many=True),
            Arg("--modified PATH=WHAT", "a file that was changed: path=what", many=True),
            Arg("--for-primary TEXT", "what the caller has to know: warnings, open ends, next steps"),
            Arg("--data JSON", "structured results, as JSON"),
            Arg("--block TEXT", "the block of an output contract, from === NAME === to === END ==="),
        ),
        about="Everything that is wrong with it is told at once, and nothing is written until it is mended. "
        "Writing the file yourself is just as good.",
    ),
)
FOR_SCRIPTS = (
    Verb(
        "list",
        "all tasks, or only the live runs",
        "overhand.verbs.tasks:list_tasks",
        options=(
            Arg("--live", "live runs: session, agent, start, deadline, depth, path"),
            Arg("--resumable", "only tasks that ended short and can go on"),
            Arg("--delegated", "only tasks that were handed to an agent, not merely prepared"),
            Arg("--prepared", "only workspaces without a record: written by hand, or brought along with the files"),
            Arg("--cost", "tokens and money of each task, of what it delegated, of today and of all"),
        ),
        aliases=("ls",),
    ),
    Verb(
        "wait",
        "wait until tasks are judged",
        words=(IDS,),
        options=(Arg("--timeout TIME", "give up after this long (exit 124)"), REQUIRE),
        about="In a script, deploy only what is proved: overhand wait 3 --require proved && ./deploy.sh",
    ),
    Verb(
        "monitor",
        "wait until a task asks something or is judged; the exit status says which",
        "overhand.verbs.wait:monitor",
        words=(ID,),
        options=(Arg("--timeout TIME", "give up after this long (15m)"),),
        about="Exit status: 0 a question waits, and is printed · 1 the agent left ipc/.done and the task is judged · "
        "2 it is judged · 3 the time is over. A judged task prints the path of its OUTPUT.md; without one, of its "
        "CONTEXT.md, and what stands in it.",
    ),
    Verb(
        "log",
        "what happened, event by event",
        "overhand.verbs.log:show_log",
        words=(ID,),
        options=(
            Arg("--follow", "go on until it is judged", short="-f"),
            Arg("--out", "all that the agent printed, as it printed it", short="-o"),
            Arg("--window", "follow it in a tmux window of the session `dispatch`, and return"),
        ),
    ),
    Verb(
        "run",
        "start a prepared task, or an ended one again",
        "overhand.verbs.control:run_again",
        words=(Arg("ID", "a task, or the path of a folder with a HANDOFF.md", value="ID|PATH", optional=True),),
        options=(
            Arg("--agent NAME", "another agent than before"),
            Arg("--wait", "wait for the result", short="-w"),
            Arg("--monitor-tags", "no task: watch tags, as `overhand daemon` does"),
        ),
    ),
    Verb(
        "tag",
        "tags in Markdown files: add, remove, swap, find, or wait for one",
        words=(
            Arg("DO", "what to do", choices=("add", "remove", "swap", "find", "await")),
            Arg(
                "WORD",
                "FILE TAG · swap: FILE OLD[,OLD2] NEW · find: TAG [PATH], with * for anything",
                value="FILE TAG",
                many=True,
                optional=True,
            ),
        ),
        options=(
            Arg("--context N", "so many lines around each hit; without N, 2", bare="2"),
            Arg("--tags-only", "only tags on a Tags line, not those in the text"),
            Arg("--files", "only the names of the files"),
            Arg("--no-ignore", "also what .gitignore leaves out"),
            Arg("--timeout TIME", "await: give up after this long (exit 124)"),
        ),
        about="Write tags in quotes: '#needs-fix'. A tag in backticks, a fence, an HTML comment or front matter is a "
        "mention and not touched. FILE:LINE means the tag of that line. When several swap the same tag, one of them "
        "succeeds and the others end with 3.",
    ),
    Verb(
        "item",
        "work that is noted in Markdown: list it, approve it, take it, close it",
        words=(
            Arg("DO", "what to do", value="DO", choices=ITEM_DO, optional=True),
            Arg(
                "ITEM",
                "path#kind or path:line#kind; for next: a kind; for new: a kind and a title",
                many=True,
                optional=True,
            ),
        ),
        options=(
            Arg("--all", "approve: all that wait; list: what is done as well"),
            Arg("--kind KIND", "only items of this kind"),
            Arg("--again", "approve what was tried before, as a new task"),
            Arg("--next", "approve for the next `item next`, not for the supervisor"),
            Arg("--summary TEXT", "done: what was done"),
            Arg("--what TEXT", "new: what is to be done (else the title)"),
            Arg("--why TEXT", "new: why it is wanted"),
            Arg("--context TEXT", "new: what one must know"),
            Arg("--expect PATH|TEXT", "new: something to deliver", many=True),
            Arg("--criterion TEXT", "new: how one sees that it is done", many=True),
            Arg("--priority P", "new: its weight", choices=("P0", "P1", "P2", "P3")),
            Arg("--effort E", "new: how much work it is", choices=("S", "M", "L")),
        ),
        about="A tag such as #needs-fix makes a line, or with a Tags line a whole file, an item. Approving one makes a "
        "task, whose id then stands behind the tag; from then on the tag shows where the task is: #delegated-fix, "
        "#claimed-fix, #done-fix. Only a person approves. Without an item, `approve` walks through all that wait.",
    ),
    Verb(
        "plan",
        "several tasks that hand results to each other: check a plan file, write one, run it, see it",
        words=(
            Arg("DO", "what to do", choices=("check", "new", "run", "show", "graph")),
            Arg(
                "FILE|ID",
                "check, run: the plan file, or - · new: what is to be done, in quotes · show: a task · graph: either",
                optional=True,
            ),
        ),
        options=(
            Arg("--explain", "check: how the score came about, and in which waves the nodes would run"),
            Arg("--strict", "check, run: warnings count as errors"),
            Arg("--stdin", "check, run: read the plan from standard input"),
            Arg("--agents NAMES", "new: who takes part, such as a,b,c (else by their capabilities)"),
            Arg(
                "--template NAME",
                "new: one of the delegation templates instead of the short form",
                choices=("standard", "parallel", "sequential"),
            ),
            Arg(
                "--strategy NAME",
                "new: how the nodes depend on each other (else by the score)",
                choices=("parallel", "sequential", "pipeline", "fan-out-fan-in"),
            ),
            Arg("--out FILE", "new, graph: the file to write, - prints it"),
            Arg("--wait", "run: show how it goes, and wait for the result", short="-w"),
            Arg("--max-parallel N", "run: so many nodes at once, at most"),
            Arg("--dry-run", "run: only say what would run when, by whom and within which limits"),
            Arg("--budget AMOUNT", "run: what all nodes together may use, such as 500k tokens, $5, or both"),
            Arg("--timeout TIME", "run: how long the whole plan may take, such as 2h"),
            Arg("--set KEY=VALUE", "run: a setting for this plan only", many=True),
            Arg("--watch", "show: stay until it is judged, and draw it again whenever it changes"),
            Arg("--format FORMAT", "show: text, yaml or json · graph: mermaid, dot or svg"),
        ),
        about="Everything that is wrong with a plan is told before anything runs. A plan is a task with a receipt, and "
        "so is each of its nodes: show, log, answer, send, stop and resume work on them. A plan file of the project "
        "runs once it is trusted: overhand trust FILE.",
    ),
    Verb(
        "alert",
        "tell everybody who begins to work what is different for a while",
        words=(
            Arg("DO", "what to do", choices=("raise", "resolve", "list")),
            Arg("TITLE", "one sentence; to resolve: a part of it, or the file", many=True, optional=True),
        ),
        options=(
            Arg("--what TEXT", "what changed"),
            Arg("--impact TEXT", "what does not work because of it"),
            Arg("--duration TEXT", "how long it will probably last"),
            Arg("--workaround TEXT", "what to do meanwhile; goes with the title into every new HANDOFF.md"),
            Arg("--note TEXT", "how it ended"),
            Arg("--all", "resolved ones as well"),
        ),
        about="An alert is a file in alerts/ with the tag #active-alert; it is in force until its tag is #done-alert.",
    ),
    Verb(
        "daemon",
        "watch tags in Markdown and start what is approved",
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
            Arg("--pid", "only print the process id of the project's supervisor; exit 1 if none is running"),
        ),
        about="It is the project's supervisor with tags switched on and no end: a file that has been left alone for 3 "
        "seconds is looked at, a #delegated tag on its Tags line is started within the caps, and a run that was lost "
        "is tried again. Stopping it stops no agent.",
    ),
    Verb(
        "mcp",
        "serve Overhand to an MCP client over stdin and stdout",
        "overhand.mcp.handshake:serve",
        about="A host gets delegate, status, wait, result, answer, inbox, stop and agents; inside a run it is handoff, "
        "step, ask, checkpoint, delegate and finish; plan_run is in both. Approving and trusting are not among them. "
        "A client is set up with: overhand connect CLIENT",
    ),
    Verb(
        "check",
        "lint a document, or run a task's checks again",
        words=(Arg("FILE|ID", "a file (with a / or a suffix), or a task", optional=True),),
        options=(
            Arg("--stdin", "read the document from standard input"),
            Arg("--strict", "warnings count as errors"),
            REQUIRE,
        ),
        about="For example: overhand check OUTPUT.md · overhand check 3 --require proved",
    ),
)
GROUPS = {"everyday": EVERYDAY, "set-up": SET_UP, "for agents": FOR_AGENTS, "for scripts": FOR_SCRIPTS}
VERBS = tuple(row for rows in GROUPS.values() for row in rows)
VERB_BY_NAME = {row.name: row for row in VERBS}
PERMIT = Verb("permit", "whether a tool may be used", words=(Arg("TOOL", "its name"), Arg("INPUT", "its input, JSON")))

# other names people try; what stands behind the name is added to the arguments
ALIASES: dict[str, tuple[str, ...]] = {
    **{alias: (verb.name,) for verb in VERBS for alias in verb.aliases},
    "ps": ("list", "--live"),
    "approve": ("item", "approve"),
    "claim": ("item", "claim"),
    "dispatch": ("daemon",),
}
