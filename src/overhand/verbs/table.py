"""One table of verbs: it feeds the parser, the help, the completion and the reference page."""

from __future__ import annotations

from overhand.verbs import Arg, Verb
from overhand.verbs.noted import NOTED
from overhand.words import CLAIMS

ID = Arg("ID", "a task: its number, a part of its title, its id, or - for the last one", value="ID")
IDS = Arg("ID", ID.help, value="ID", many=True)


DELEGATE = (
    Arg("--agent", "who does it (else the default agent)", value="NAME"),
    Arg(
        "--kind",
        "what kind of work: research, plan, fix, review, … (times, level and contract come with it)",
        value="KIND",
    ),
    Arg("--context", "background the agent needs; refer to files instead of pasting them", value="TEXT", many=True),
    Arg("--file", "a key file, optionally with a reason: path=why", value="PATH", many=True),
    Arg("--constraint", "something to keep to", value="TEXT", many=True),
    Arg("--deliverable", "what must be there afterwards: a path, or a sentence", value="PATH|TEXT", many=True),
    Arg("--return", "what the answer must tell", value="TEXT", many=True),
    Arg("--step", "a step of the plan", value="TEXT", many=True),
    Arg("--verify", "a command that must succeed afterwards; run by Overhand before and after", value="CMD", many=True),
    Arg("--handoff", "take the HANDOFF from a file, or - for standard input", value="FILE"),
    Arg("--edit", "open the HANDOFF in $EDITOR before it starts"),
    Arg("--no-start", "only prepare the task; start it later with `overhand run`"),
    Arg("--wait", "wait for the result and show progress", short="-w"),
    Arg("--timeout", "how long the run may take, such as 30m", value="TIME"),
    Arg("--budget", "what it and all below it may use, such as 200k tokens, $5, or both", value="AMOUNT"),
    Arg("--priority", "order in the queue", value="P", choices=("P0", "P1", "P2", "P3")),
    Arg(
        "--contract",
        "DOCUMENT_ANALYSIS, RESEARCH_OUTPUT, REVIEW_OUTPUT, or a JSON Schema file for the data",
        value="NAME|FILE",
    ),
    Arg("--model", "passed on to the agent", value="NAME"),
    Arg(
        "--level",
        "what it may do: read, work (edit and run commands here), full (whatever it wants)",
        value="LEVEL",
        choices=("read", "work", "full"),
    ),
    Arg("--read-only", "the agent may only read: --level read"),
    Arg("--here", "work in your own checkout (the only way so far)"),
    Arg("--session", "go on in a session that was started elsewhere, such as claude:ID", value="AGENT:ID"),
    Arg("--after", "start when that task is judged completed", value="ID"),
    Arg("--set", "a setting for this task only", value="KEY=VALUE", many=True),
    Arg("--strict", "warnings count as errors"),
)

GLOBAL = (
    Arg("--json", "one JSON object instead of text (JSON lines for streams)"),
    Arg("--project", "the project folder (else the one around you)", value="DIR", short="-C"),
    Arg("--help", "show this", short="-h"),
)

VERBS = (
    Verb(
        "status",
        "everyday",
        "what needs you, what works, what is ready",
        "overhand.verbs.status:status",
        options=(
            Arg("--watch", "stay, and show it again whenever it changes"),
            Arg("--all", "every project of yours, not only this one"),
        ),
        aliases=("inbox",),
    ),
    Verb(
        "delegate",
        "everyday",
        "hand a task to an agent",
        "overhand.verbs.delegate:delegate",
        words=(Arg("TITLE", "what to do", value="TITLE", optional=True),),
        options=DELEGATE,
        aliases=("dispatch",),
        about="Returns at once; the work goes on without this terminal. `overhand wait -` waits for it, "
        "`overhand show -` shows the checked result.",
    ),
    Verb(
        "answer",
        "everyday",
        "answer a question; without words, walk through all that wait",
        "overhand.verbs.ask:answer",
        words=(
            Arg("ID", ID.help, value="ID", optional=True),
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
        "everyday",
        "tell an agent something: with its next turn, or in a new run",
        "overhand.verbs.send:send",
        words=(ID, Arg("TEXT", "what it is to know", value="TEXT", many=True, optional=True)),
        options=(Arg("--file", "take the message from a file, or - for standard input", value="FILE"),),
        about="A finished agent goes on with it in its own session, in the same task, and is judged again. Coding "
        "agents take no message in the middle of their work; they get it as soon as their run ends.",
    ),
    Verb(
        "show",
        "everyday",
        "a task and its receipt: claimed, checked, look at",
        "overhand.verbs.show:show",
        words=(ID,),
        options=(
            Arg("--output", "print its OUTPUT.md and nothing else"),
            Arg("--report", "the report of its last run: commands, deliverables, checks, handoff, tokens"),
        ),
    ),
    Verb(
        "stop",
        "everyday",
        "stop a task and everything its run started",
        "overhand.verbs.control:stop",
        words=(Arg("ID", ID.help, value="ID", many=True, optional=True),),
        options=(
            Arg("--all", "every task that is queued or at work"),
            Arg("--now", "without waiting for the agent to end by itself"),
        ),
        aliases=("cancel",),
    ),
    Verb(
        "resume",
        "everyday",
        "go on with a task that ended short",
        "overhand.verbs.resume:resume",
        words=(ID,),
        options=(
            Arg("--answer", "the answer to its open question, or a word to go on with", value="TEXT"),
            Arg("--from", "a checkpoint of this task, or latest", value="CKPT"),
            Arg("--agent", "another agent takes over", value="NAME"),
            Arg("--open", "open its own session on this terminal; it is judged again when you leave"),
            Arg("--budget", "a new budget, for all its runs together", value="AMOUNT"),
            Arg("--wait", "wait for the result", short="-w"),
        ),
        about="A new run of the same task: steps that are done stay done, and its HANDOFF.md tells what the last run "
        "left. See what can be resumed: overhand list --resumable",
    ),
    Verb("init", "set-up", "make this folder an Overhand project", "overhand.verbs.setup:init"),
    Verb(
        "agents",
        "set-up",
        "the agents of this project, and the agent programs of this machine",
        "overhand.verbs.agents:agents",
        words=(
            Arg("NAME", "only this one; or `test NAME`: try it out", value="[test] NAME", many=True, optional=True),
        ),
        options=(Arg("--example", "print an agent file to start from"),),
        about="`overhand agents test NAME` hands it one tiny task that only reads, and says what came of it. Whether a "
        "program is logged in is told from variables that are set and files that are there; they are never read.",
    ),
    Verb(
        "trust",
        "set-up",
        "allow this project's agents, checks and settings to run",
        "overhand.verbs.setup:trust_project",
        words=(Arg("FILE", "only these, such as a plan file", value="FILE", many=True, optional=True),),
        options=(Arg("--yes", "without asking", short="-y"),),
        person=True,
        about="Trust is bound to the content of these files: a change asks again. "
        "It is kept in your own configuration folder.",
    ),
    Verb(
        "connect",
        "set-up",
        "let a coding client delegate through Overhand's MCP server",
        "overhand.verbs.connect:connect",
        words=(
            Arg(
                "CLIENT", "claude, codex, gemini or opencode", value="CLIENT", choices="overhand.verbs.connect:clients"
            ),
        ),
        options=(
            Arg("--write", "add it to the client's own configuration"),
            Arg("--remove", "take it back out"),
            Arg("--here", "for this project only: the configuration in its folder"),
            Arg("--plugin", "write a Claude Code plugin with /dispatch and a skill into this folder", value="DIR"),
        ),
        person=True,
        about="Without --write it only prints what belongs into which file. Only our own entry is ever touched, and "
        "what was there before is kept beside it once.",
    ),
    Verb(
        "doctor",
        "set-up",
        "what is not as it should be here, why it matters, and what to type",
        "overhand.verbs.doctor:doctor",
        options=(Arg("--fix", "offer to mend what can be mended without losing anything; asks before each step"),),
        about="Looks at tools, locks, settings, agents, runs, claims, requests, worktrees and sizes. Exit status 1 if "
        "it found a problem. It never removes anything.",
    ),
    Verb(
        "clean",
        "set-up",
        "remove finished tasks that were seen",
        "overhand.verbs.control:clean",
        options=(
            Arg("--older", "how long ago they ended (7d)", value="TIME"),
            Arg("--dry-run", "only say what would go"),
            Arg("--yes", "without asking", short="-y"),
        ),
        person=True,
        about="Removes tasks that ended more than 7 days ago. What nobody has looked at stays, "
        "and so does what a run still holds.",
    ),
    Verb(
        "demo",
        "set-up",
        "see it work, in a minute, without keys or a server",
        "overhand.verbs.setup:demo",
        options=(Arg("--keep", "keep the demo's project folder"),),
        project=False,
    ),
    Verb("version", "set-up", "print the version", "overhand.verbs.setup:version", project=False),
    Verb(
        "completion",
        "set-up",
        "a completion script for your shell",
        "overhand.verbs.setup:completion",
        words=(Arg("SHELL", "bash, zsh or fish", value="SHELL", choices=("bash", "zsh", "fish")),),
        project=False,
    ),
    Verb(
        "ask",
        "for agents",
        "ask a person from inside a run, and wait for the answer",
        "overhand.verbs.ask:ask",
        words=(Arg("QUESTION", "what you need to know", value="QUESTION", optional=True),),
        options=(
            Arg("--option", "an answer to choose from", value="TEXT", many=True),
            Arg("--closed", "only one of the options will do"),
            Arg("--step", "the step of the plan that waits for it", value="TEXT"),
            Arg("--again", "wait on for a question that was asked before", value="SEQ"),
            Arg("--timeout", "how long to block (100s, or what the agent's file says)", value="TIME"),
        ),
        about="Prints the answer. If none came in time it ends with 124 and says how to wait on; the question stays.",
    ),
    Verb(
        "step",
        "for agents",
        "mark a step of the plan in HANDOFF.md, or show the plan",
        "overhand.verbs.step:step",
        words=(
            Arg("ID", "a task; only outside a run, inside one its own is meant", value="ID", optional=True),
            Arg("STEP", "the step's number, or a part of its text", value="N|TEXT", optional=True),
            Arg(
                "STATE",
                "done, doing, blocked, error or open; words after error are the reason",
                value="STATE",
                many=True,
                optional=True,
            ),
        ),
        options=(
            Arg(
                "--phase",
                "move the task to another phase (INITIATE, IDENTIFY, …), or name why it failed",
                value="PHASE",
            ),
            Arg("--reason", "what went wrong, for an error", value="TEXT"),
            Arg("--question", "the question that a blocked step waits for", value="SEQ"),
        ),
        about="Changes the marker and not another byte, also while somebody else writes to the file. "
        "Editing the file yourself is just as good.",
    ),
    Verb(
        "checkpoint",
        "for agents",
        "save where a task stands, list such points, show one",
        "overhand.verbs.checkpoint:checkpoint",
        words=(
            Arg("DO", "create, list or show", value="create|list|show", choices=("create", "list", "show")),
            Arg("ID", "a task (inside a run: its own), or a checkpoint to show", value="ID|CKPT", optional=True),
        ),
        options=(
            Arg("--reason", "why now", value="TEXT"),
            Arg("--handoff", "how much to write down", value="HOW", choices=("quick", "full")),
            Arg("--name", "its name: ckpt_NAME (else from the task's title)", value="NAME"),
            Arg("--git-tag", "put a git tag of that name on the current commit"),
        ),
        about="Go on from one with: overhand resume ID --from CKPT. Files are never rolled back.",
    ),
    Verb(
        "finish",
        "for agents",
        "return the result of a run: write its OUTPUT.md, once nothing is wrong with it",
        "overhand.verbs.finish_run:finish",
        options=(
            Arg("--status", "how it ended", value="STATUS", choices=CLAIMS),
            Arg("--summary", "one to three sentences: what is true now", value="TEXT"),
            Arg("--title", "a short title (else the task's)", value="TEXT"),
            Arg("--deliverable", "a file that was asked for, and what it is: path=what", value="PATH=WHAT", many=True),
            Arg("--decision", "something that was decided: what=why", value="WHAT=WHY", many=True),
            Arg("--modified", "a file that was changed: path=what", value="PATH=WHAT", many=True),
            Arg("--for-primary", "what the caller has to know: warnings, open ends, next steps", value="TEXT"),
            Arg("--data", "structured results, as JSON", value="JSON"),
            Arg("--block", "the block of an output contract, from === NAME === to === END ===", value="TEXT"),
        ),
        about="Everything that is wrong with it is told at once, and nothing is written until it is mended. "
        "Writing the file yourself is just as good.",
    ),
    Verb(
        "list",
        "for scripts",
        "all tasks, or only the live runs",
        "overhand.verbs.tasks:list_tasks",
        options=(
            Arg("--live", "live runs: session, agent, start, deadline, depth, path"),
            Arg("--resumable", "only tasks that ended short and can go on"),
            Arg("--delegated", "only tasks that were handed to an agent, not merely prepared"),
            Arg("--cost", "tokens and money of each task, of what it delegated, of today and of all"),
        ),
        aliases=("ls",),
    ),
    Verb(
        "wait",
        "for scripts",
        "wait until tasks are judged",
        "overhand.verbs.wait:wait",
        words=(IDS,),
        options=(Arg("--timeout", "give up after this long (exit 124)", value="TIME"),),
    ),
    Verb(
        "monitor",
        "for scripts",
        "wait until a task asks something or is judged; the exit status says which",
        "overhand.verbs.wait:monitor",
        words=(ID,),
        options=(Arg("--timeout", "give up after this long (15m)", value="TIME"),),
        about="Exit status: 0 a question waits, and is printed · 1 the agent left ipc/.done and the task is judged · "
        "2 it is judged · 3 the time is over. A judged task prints the path of its OUTPUT.md; without one, of its "
        "CONTEXT.md, and what stands in it.",
    ),
    Verb(
        "log",
        "for scripts",
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
        "for scripts",
        "start a prepared task, or an ended one again",
        "overhand.verbs.control:run_again",
        words=(Arg("ID", "a task, or the path of a folder with a HANDOFF.md", value="ID|PATH", optional=True),),
        options=(
            Arg("--agent", "another agent than before", value="NAME"),
            Arg("--wait", "wait for the result", short="-w"),
            Arg("--monitor-tags", "no task: watch tags, as `overhand daemon` does"),
        ),
    ),
    *NOTED,
    Verb(
        "mcp",
        "for scripts",
        "serve Overhand to an MCP client over stdin and stdout",
        "overhand.mcp.door:serve",
        about="A host gets delegate, status, wait, result, answer, inbox, stop and agents; inside a run it is handoff, "
        "step, ask, checkpoint, delegate and finish; plan_run is in both. Approving and trusting are not among them. "
        "A client is set up with: overhand connect CLIENT",
    ),
    Verb(
        "check",
        "for scripts",
        "lint a document, or run a task's checks again",
        "overhand.verbs.check:check",
        words=(Arg("FILE|ID", "a file (with a / or a suffix), or a task", value="FILE|ID", optional=True),),
        options=(Arg("--stdin", "read the document from standard input"), Arg("--strict", "warnings count as errors")),
    ),
)

# other names people try; what stands behind the name is added to the arguments
ALIASES: dict[str, tuple[str, ...]] = {
    **{alias: (verb.name,) for verb in VERBS for alias in verb.aliases},
    "ps": ("list", "--live"),
    "approve": ("item", "approve"),
    "claim": ("item", "claim"),
    "dispatch": ("daemon",),
}


def verb(name: str) -> Verb | None:
    """The verb of this name."""
    return next((row for row in VERBS if row.name == name), None)
