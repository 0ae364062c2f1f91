"""What is heard in a stream, where, and what belongs to it."""

from __future__ import annotations

import pytest

from overhand.documents import ControlCommand, ControlListener
from overhand.documents.control.listener import BLOCK_LIMIT, LINE_LIMIT, PARAGRAPH_LIMIT


def hear(stream: str | bytes) -> list[ControlCommand]:
    listener = ControlListener()
    return [*listener.feed(stream), *listener.finish()]


def one(stream: str | bytes) -> ControlCommand:
    (command,) = hear(stream)
    return command


# a line or two: word, target, reason
COMMANDS: dict[str, tuple[str, str, str]] = {
    "CONTROL: PAUSE": ("PAUSE", "", ""),
    "CONTROL: PAUSE\nREASON: JWT or OAuth?": ("PAUSE", "", "JWT or OAuth?"),
    "CONTROL: CHECKPOINT REASON: 85% is used": ("CHECKPOINT", "", "85% is used"),
    "CONTROL: CHECKPOINT [REASON: 85% (136K/160K)]": ("CHECKPOINT", "", "85% (136K/160K)"),
    "CONTROL: CHECKPOINT, reason: tests are next": ("CHECKPOINT", "", "tests are next"),
    "CONTROL: CHECKPOINT — REASON: tests are next": ("CHECKPOINT", "", "tests are next"),
    "CONTROL:CHECKPOINT": ("CHECKPOINT", "", ""),
    "CONTROL:\u00a0CHECKPOINT": ("CHECKPOINT", "", ""),
    "CONTROL : CHECKPOINT": ("CHECKPOINT", "", ""),
    "CONTROL: ESCALATE   \nREASON: Ten attempts, none holds": ("ESCALATE", "", "Ten attempts, none holds"),
    "CONTROL: RESUME": ("RESUME", "", ""),
    "CONTROL: RESUME latest": ("RESUME", "", ""),
    "CONTROL: RESUME ckpt_auth-2": ("RESUME", "ckpt_auth-2", ""),
    "CONTROL: RESUME [ckpt_auth] REASON: goes on with SOLVE": ("RESUME", "ckpt_auth", "goes on with SOLVE"),
    "CONTROL: DELEGATE codebase-analyzer": ("DELEGATE", "codebase-analyzer", ""),
    "CONTROL: DELEGATE [mapper]\nREASON: Audit the login": ("DELEGATE", "mapper", "Audit the login"),
    "CONTROL: DELEGATE `mapper` REASON: Audit: all of it": ("DELEGATE", "mapper", "Audit: all of it"),
    "CONTROL: PAUSE\nREASON: größer als 日本 🙂?": ("PAUSE", "", "größer als 日本 🙂?"),
}


@pytest.mark.parametrize("text", COMMANDS)
@pytest.mark.parametrize("end", ["", "\n", "\nmore\n"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_command(text: str, end: str, ends: str) -> None:
    command = one(f"Before.\n\n{text}{end}".replace("\n", ends))
    assert (command.word, command.target, command.reason) == COMMANDS[text]
    assert command.paragraph == "Before."
    assert command.line == 3


NOT_HEARD = {
    "fence": "```\nCONTROL: PAUSE\n```\n",
    "fence with a language": "```text\nCONTROL: PAUSE\n```\n",
    "tildes": "~~~\nCONTROL: PAUSE\n```\nCONTROL: PAUSE\n~~~\n",
    "long fence": "`````\n```\nCONTROL: PAUSE\n```\nCONTROL: PAUSE\n`````\n",
    "fence in a list": "- so:\n  ```\n  CONTROL: PAUSE\n  ```\n",
    "indented fence": "   ```\nCONTROL: PAUSE\n   ```\n",
    "fence never closed": "```\nx\n\nCONTROL: PAUSE\nCONTROL: ESCALATE REASON: x\n",
    "quote": "> CONTROL: PAUSE\n>CONTROL: PAUSE\n> > CONTROL: PAUSE\n",
    "fence in a quote": "> ```\n> CONTROL: PAUSE\n> ```\n",
    "inline code": "`CONTROL: PAUSE`\n``CONTROL: PAUSE``\n",
    "table": "| CONTROL: PAUSE | asks |\n|---|---|\n| CONTROL: ESCALATE | ends |\n",
    "indented code": "x\n\n    CONTROL: PAUSE\n\n\tCONTROL: PAUSE\n",
    "indented": " CONTROL: PAUSE\n  CONTROL: PAUSE\n",
    "list": "- CONTROL: PAUSE\n* CONTROL: PAUSE\n1. CONTROL: PAUSE\n- [ ] CONTROL: PAUSE\n",
    "bold": "**CONTROL: PAUSE**\n*CONTROL: PAUSE*\n__CONTROL__: PAUSE\n",
    "heading": "# CONTROL: PAUSE\n",
    "sentence": "Then I write CONTROL: PAUSE and wait.\nUse CONTROL: ESCALATE\n",
    "quotation marks": '"CONTROL: PAUSE"\n“CONTROL: PAUSE”\n',
    "comment": "<!--\nCONTROL: PAUSE\n-->\n",
    "other words": "CONTROLLER: PAUSE\nCONTROLS: PAUSE\nCONTROL-PLANE: PAUSE\nACCESS CONTROL: PAUSE\n",
    "prose": "Control: the room is cold.\nControl is lost.\nCONTROL IS LOST\ncontrol flow: pause the loop\nCONTROL\n",
    "prose without a colon": "CONTROL PAUSE is a command.\nControl Pause\n",
    "carriage return": "50%\rCONTROL: PAUSE\n",
    "escape": "\x1b[1mCONTROL: PAUSE\x1b[0m\n",
    "too long": "CONTROL: PAUSE REASON: " + "x" * LINE_LIMIT + "\n",
}


@pytest.mark.parametrize("name", NOT_HEARD)
def test_what_is_not_heard(name: str) -> None:
    assert hear(NOT_HEARD[name]) == []


def test_all_of_it_in_one_file() -> None:
    kept = {name: text for name, text in NOT_HEARD.items() if name != "fence never closed"}
    assert hear("\n\nText.\n\n".join(kept.values())) == []


@pytest.mark.parametrize(
    "before",
    [
        "```\nx\n```\n",
        "> said\n",
        "> ```\n> x\n",
        "- a\n- b\n",
        "- ```\n  x\n",
        "<!-- note -->\n",
        "<!--\nx\n-->\n",
        "`x\n",
        "```a`b\n",
        "# Head\n",
        "x" * (LINE_LIMIT * 3) + "\n",
        "\xff\x00\n",
        "\n" * 1000,
        "delegation:\n  a: b\n",
        "REASON: of nothing\n",
    ],
)
def test_what_does_not_make_deaf(before: str) -> None:
    command = one(f"{before}CONTROL: CHECKPOINT\n")
    assert (command.word, command.offset) == ("CHECKPOINT", len(before.encode()))


# what a line is that tries to be a command: code, and a part of the fix
REFUSED = {
    "CONTROL: MAGIC_COMMAND": ("control-unknown", "PAUSE, CHECKPOINT, ESCALATE, RESUME, DELEGATE"),
    "CONTROL: CHECKPIONT": ("control-unknown", "PAUSE"),
    "CONTROL: PAUSED": ("control-unknown", "PAUSE"),
    "CONTROL: **PAUSE**": ("control-unknown", "PAUSE"),
    "CONTROL: ": ("control-empty", "PAUSE"),
    "CONTROL:": ("control-empty", "PAUSE"),
    "CONTROL CHECKPOINT": ("control-colon", "`CONTROL: CHECKPOINT`"),
    "CONTROL - DELEGATE mapper": ("control-colon", "`CONTROL: DELEGATE mapper`"),
    "CONTROL\uff1aPAUSE": ("control-colon", "`CONTROL: PAUSE`"),
    "CONTROL: pause": ("control-case", "`CONTROL: PAUSE`"),
    "Control: Resume ckpt_a": ("control-case", "`CONTROL: RESUME ckpt_a`"),
    "control: pause reason: why": ("control-case", "`CONTROL: PAUSE`"),
    "CONTROL: PAUSE which one?": ("control-extra", "`CONTROL: PAUSE REASON: which one?`"),
    "CONTROL: PAUSE: which one?": ("control-extra", "`CONTROL: PAUSE REASON: which one?`"),
    "CONTROL: PAUSE.": ("control-extra", "`CONTROL: PAUSE`"),
    "CONTROL: PAUSE | asks | x": ("control-extra", "REASON:"),
    "CONTROL: DELEGATE mapper to read it": ("control-extra", "`CONTROL: DELEGATE mapper REASON: to read it`"),
    "CONTROL: RESUME [checkpoint_id]": ("control-checkpoint-form", "`CONTROL: RESUME`"),
    "CONTROL: RESUME ckpt_": ("control-checkpoint-form", "`CONTROL: RESUME`"),
    "CONTROL: RESUME ckpt_../x": ("control-checkpoint-form", "`CONTROL: RESUME`"),
    "CONTROL: DELEGATE REASON: look at it": ("control-agent-missing", "`CONTROL: DELEGATE`"),
    "CONTROL: DELEGATE mapper": ("control-no-task", "`REASON:`"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_refusal_says_what_to_write(text: str) -> None:
    command = one(f"Which one?\n{text}\nand on\n")
    problem = command.refused
    assert problem is not None
    code, fix = REFUSED[text]
    assert (problem.code, problem.line) == (code, 2)
    assert fix in problem.fix
    assert command.offset == len("Which one?\n")


def test_a_malformed_command_has_no_word() -> None:
    assert {one(text).word for text, (code, _) in REFUSED.items() if code in MALFORMED} == {""}


MALFORMED = ("control-unknown", "control-empty", "control-colon", "control-case", "control-extra")


def test_commands_in_a_row() -> None:
    found = hear(
        "Which?\nCONTROL: DELEGATE a\nCONTROL: DELEGATE b\nREASON: x\nCONTROL: CHECKPOINT\nCONTROL: PAUSE\nREASON: y"
    )
    assert [(c.word, c.target, c.reason) for c in found] == [
        ("DELEGATE", "a", ""),
        ("DELEGATE", "b", "x"),
        ("CHECKPOINT", "", ""),
        ("PAUSE", "", "y"),
    ]


def test_a_reason_stands_on_the_next_line_and_nowhere_else() -> None:
    assert one("CONTROL: ESCALATE\n\nREASON: late\n").reason == ""
    assert one("CONTROL: ESCALATE\nREASON: a\nREASON: b\n").reason == "a"
    assert one("CONTROL: ESCALATE REASON: a\nREASON: b\n").reason == "a"
    assert one("CONTROL: ESCALATE\n  REASON: indented\n").reason == ""
    assert one("CONTROL: ESCALATE\nREASON:\n").reason == ""


PARAGRAPHS = {
    "Which one,\nA or B?\nCONTROL: PAUSE": "Which one,\nA or B?",
    "First.\n\nWhich one?\n\n\nCONTROL: PAUSE": "Which one?",
    "Which one?\n\n- A\n- B\n\nCONTROL: PAUSE": "Which one?\n\n- A\n- B",
    "Old.\n\nWhich one?\n- A\n\n- B\nCONTROL: PAUSE": "Which one?\n- A\n\n- B",
    "Which of these?\n```\nA\n```\nCONTROL: PAUSE": "Which of these?",
    "x\n```\nA\n```\ny\nCONTROL: PAUSE": "y",
    "x\n\n## A or B?\n\nCONTROL: PAUSE": "A or B?",
    "x\n## Head\nA or B?\nCONTROL: PAUSE": "A or B?",
    "A or B?\n\n---\nCONTROL: PAUSE": "A or B?",
    "A or B?\nCONTROL: CHECKPOINT\nREASON: safe\n\nCONTROL: PAUSE": "A or B?",
    "A?\nCONTROL: PAUSE\nREASON: other\n\nCONTROL: PAUSE": "",
    "A?\nCONTROL: PAUSE\nB?\nCONTROL: PAUSE": "B?",
    "CONTROL: PAUSE": "",
    "\ufeffA or B?\r\nCONTROL: PAUSE\r\n": "A or B?",
}


@pytest.mark.parametrize("text", PARAGRAPHS)
def test_the_paragraph_before(text: str) -> None:
    command = hear(text)[-1]
    assert command.paragraph == PARAGRAPHS[text]
    no_question = "control-no-question" in {problem.code for problem in command.problems}
    assert no_question == (not command.paragraph)


def test_of_a_long_paragraph_the_end_is_kept() -> None:
    command = one("word " * 10_000 + "\n" + "line\n" * 10_000 + "Which one?\nCONTROL: PAUSE\n")
    assert command.paragraph.endswith("line\nWhich one?")
    assert len(command.paragraph) <= PARAGRAPH_LIMIT
    assert one("y" * 50_000 + "Which?\nCONTROL: PAUSE\n").paragraph.endswith("yWhich?")


BODY = "delegation:\n  to_agent: mapper\n  task: Map the roads\n\n  context:\n    priority: LOW\n"
BLOCKS = {
    f"CONTROL: DELEGATE mapper\n{BODY}": BODY,
    f"CONTROL: DELEGATE mapper\n\n{BODY}\nThen more.\n": BODY,
    f"CONTROL: DELEGATE mapper REASON: why\n{BODY}CONTROL: CHECKPOINT\n": BODY,
    f"CONTROL: DELEGATE mapper\nREASON: why\n```yaml\n{BODY}```\n": BODY,
    f"CONTROL: DELEGATE mapper\n\n~~~~\n\n{BODY}~~~~\n": BODY,
    f"CONTROL: DELEGATE mapper\n```yaml\n{BODY}": BODY,
    f"CONTROL: DELEGATE\n```yaml\n{BODY}```": BODY,
    "CONTROL: DELEGATE mapper\ndelegation:\nto_agent: mapper\ntask:\n- a\n\n- no more\n": (
        "delegation:\nto_agent: mapper\ntask:\n- a\n"
    ),
    f"CONTROL: DELEGATE mapper\n```yaml\nother: 1\n{BODY}```\n": "",
    f"CONTROL: DELEGATE mapper\nBut first:\n{BODY}": "",
    f"CONTROL: DELEGATE mapper\n```\n```\n{BODY}": "",
    f"CONTROL: CHECKPOINT\n{BODY}": "",
}


@pytest.mark.parametrize("text", BLOCKS)
def test_the_block_behind(text: str) -> None:
    command = hear(text)[0]
    assert command.block == BLOCKS[text]
    assert command.target == ("" if command.word == "CHECKPOINT" else "mapper")


def test_behind_a_block_everything_is_heard_again() -> None:
    for block in (BODY, f"```\n{BODY}```\n", "```\nx: y\n```\n", BODY + "    ```\n  ```\n"):
        found = hear(f"CONTROL: DELEGATE mapper\n{block}CONTROL: CHECKPOINT\n")
        assert [command.word for command in found] == ["DELEGATE", "CHECKPOINT"]


def test_a_block_without_end_is_refused() -> None:
    listener = ControlListener()
    found = listener.feed("CONTROL: DELEGATE mapper\ndelegation:\n")
    for _ in range(10):
        found += listener.feed("  scope: " + "x" * (BLOCK_LIMIT // 8) + "\n")
    (command,) = found
    assert command.refused is not None
    assert command.refused.code == "control-block-long"
    assert len(command.block) <= BLOCK_LIMIT


def test_a_command_comes_as_soon_as_it_is_complete() -> None:
    listener = ControlListener()
    assert [c.word for c in listener.feed("CONTROL: CHECKPOINT REASON: x\n")] == ["CHECKPOINT"]
    assert listener.feed("CONTROL: PAUSE\nREASON: wh") == []
    before, found, after = listener.waiting, listener.feed("y\n"), listener.waiting
    assert (before, [c.reason for c in found], after) == (True, ["why"], False)
    assert listener.feed("CONTROL: PAUSE\n") == []
    assert [c.word for c in listener.feed("\n")] == ["PAUSE"]


def test_an_agent_that_says_nothing_more_is_heard() -> None:
    listener = ControlListener()
    assert listener.feed("A or B?\nCONTROL: PAUSE\n") == []
    (command,) = listener.quiet()
    assert (command.word, command.paragraph) == ("PAUSE", "A or B?")
    assert listener.quiet() == []
    assert listener.feed("REASON: too late\n") == []
    assert listener.finish() == []


def test_half_a_line_is_no_command_yet() -> None:
    listener = ControlListener()
    assert listener.feed("CONTROL: DELEGATE map") == []
    assert listener.quiet() == []
    assert [c.target for c in [*listener.feed("per REASON: x\n"), *listener.finish()]] == ["mapper"]


def test_broken_utf8_and_a_mark_of_byte_order() -> None:
    found = hear(b"\xef\xbb\xbfCONTROL: CHECKPOINT\r\n\xff\xfe\x80\r\nCONTROL: PAUSE\r\nREASON: \xc3(?\r\n")
    assert [(c.word, c.offset, c.line) for c in found] == [("CHECKPOINT", 0, 1), ("PAUSE", 29, 3)]
    assert found[1].reason == "\ufffd(?"


def test_a_line_as_long_as_a_command_may_be() -> None:
    start = "CONTROL: CHECKPOINT REASON: "
    assert one(start + "x" * (LINE_LIMIT - len(start)) + "\n").word == "CHECKPOINT"
    assert hear(start + "x" * (LINE_LIMIT - len(start) + 1) + "\n") == []


def test_an_endless_stream_is_not_kept() -> None:
    listener = ControlListener()
    for _ in range(200):
        assert listener.feed(b"x" * 65_536) == []
    assert len(listener._line) <= LINE_LIMIT + 1
    (command,) = listener.feed("\nCONTROL: CHECKPOINT\n\n")
    assert command.offset == 200 * 65_536 + 1
