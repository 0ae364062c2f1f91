"""What scripted agents ask and hand back: good, clumsy and worthless returns. Quick to import."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SUMMARY = "Did the scripted work."

# Broken UTF-8, half a table, an unclosed fence: nothing here can be read as a result.
RUBBISH = b"\xff\xfe\x00|||\n| a\n```json\n{]\n\n\x80\x81 lorem ### ipsum **Stat\n"

JSON_FORMS = {"": "{0}", "fenced": "```json\n{0}\n```", "prose": "All done, see here: {0} (that was it)."}


def output_md(
    title: str, agent: str, status: str = "completed", summary: str = SUMMARY, files: Sequence[str] = ()
) -> str:
    """A well-formed OUTPUT.md that names these files."""
    table = "".join(f"| `{path}` | Written by a script |\n" for path in files)
    modified = "".join(f"- `{path}` — Written by a script\n" for path in files)
    return (
        f"# Task Complete: {title}\n\n**Status:** {status}\n**Duration:** 1 second\n**Agent:** {agent}\n\n"
        f"## Summary\n{summary}\n\n"
        f"## Deliverables\n| File | Description |\n|------|-------------|\n{table}\n"
        "## Decisions Made\n- **Followed the script**: it is what a scripted agent does\n\n"
        f"## For Primary\n- Nothing to add\n\n## Files Modified\n{modified}"
    )


def clumsy_md(files: Sequence[str]) -> str:
    """A good result, badly formatted: no title, other case and order, CRLF, an unexpected section."""
    named = "".join(f"* `{path}`\n" for path in files)
    text = (
        f"## files modified\n{named}\n## MY FEELINGS\nThis went well.\n\n"
        f"## summary\n{SUMMARY}\n\n**status** : Completed\n"
    )
    return text.replace("\n", "\r\n")


def prose(files: Sequence[str]) -> str:
    """A result without any form at all: a sentence."""
    return f"Done! I wrote {', '.join(files) or 'nothing'} and it works great.\n"


def return_json(
    status: str = "completed",
    summary: str = SUMMARY,
    files: Sequence[str] = (),
    data: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """The return as JSON: what `result.json`, standard output or a function agent may hold."""
    artifacts = [{"type": "file", "path": path, "summary": "Written by a script"} for path in files]
    returned: dict[str, object] = {"status": status, "summary": summary, "artifacts": artifacts}
    if data is not None:
        returned["data"] = dict(data)
    return returned


def ask(ipc: str, question: str) -> int:
    """Write the next question and return its number."""
    import json

    os.makedirs(ipc, exist_ok=True)
    taken = [int(name[:3]) for name in os.listdir(ipc) if name[:3].isdigit()]
    seq = max(taken, default=0) + 1
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    path = f"{ipc}/{seq:03d}.question"
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        json.dump({"seq": seq, "timestamp": stamp, "question": question}, file, ensure_ascii=False)
    os.rename(f"{path}.tmp", path)
    return seq


def await_answer(ipc: str, seq: int) -> str:
    """Block until the question is answered; the answer appears by rename, so it is whole when it is there."""
    import json

    path = f"{ipc}/{seq:03d}.answer"
    while not os.path.exists(path):
        time.sleep(0.02)
    with open(path, encoding="utf-8") as file:
        return str(json.load(file)["answer"])
