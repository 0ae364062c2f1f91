"""What holds of every stream: its chunks do not matter, and what is heard stands where it is said to stand."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from overhand.documents import ControlCommand, ControlListener, is_control, lint_control, parse_delegation
from overhand.documents.control.lines import CODES, WORDS
from overhand.documents.problems import CODES as DOCUMENT_CODES
from support.strategies import light

PIECES = [
    "CONTROL: PAUSE", "CONTROL: CHECKPOINT REASON: x", "CONTROL: DELEGATE mapper", "CONTROL: RESUME [ckpt_a]",
    "CONTROL: ", "CONTROL ESCALATE", "control: pause", "CONTROL: MAGIC", "REASON: why é", "REASON:", "delegation:",
    "  to_agent: mapper", "  task: 日本", "```", "```yaml", "~~~", "````", "> ", "- ", "  - a", "    ", "<!--", "-->",
    "# Head", "🙂 text", "text", "", "", "---", "\ufeff", "\r", "PAUSE", "Just checkpoint this",
    "**CONTROL: PAUSE**", "`", "|", "\t", "scope:",
]  # fmt: skip


def _stream(seed: int) -> bytes:
    dice = random.Random(seed)
    rows = [
        "".join(dice.choice(PIECES) for _ in range(1 if dice.random() < 0.9 else 2)).encode()
        + (bytes([dice.randrange(256)]) if dice.random() < 0.05 else b"")
        for _ in range(dice.randint(0, 30))
    ]
    return dice.choice([b"\n", b"\r\n"]).join(rows) + dice.choice([b"", b"\n"])


STREAMS = st.one_of(st.integers(0, 2**40).map(_stream), st.binary(max_size=200))


def whole(stream: bytes | str) -> list[ControlCommand]:
    listener = ControlListener()
    return [*listener.feed(stream), *listener.finish()]


@light
@given(STREAMS, st.integers(0, 2**40))
def test_chunks_do_not_matter(stream: bytes, seed: int) -> None:
    expected = whole(stream)
    dice, listener = random.Random(seed), ControlListener()
    found: list[ControlCommand] = []
    begin = 0
    while begin < len(stream):
        end = begin + dice.choice([1, 1, 2, 3, 10, 50])
        found += listener.feed(stream[begin:end])
        begin = end
    assert [*found, *listener.finish()] == expected


@light
@given(STREAMS)
def test_an_offset_is_the_start_of_its_line(stream: bytes) -> None:
    found = whole(stream)
    for command in found:
        before, line = stream[: command.offset], stream[command.offset :].removeprefix(b"\xef\xbb\xbf")
        assert not before or before.endswith(b"\n")
        assert before.count(b"\n") + 1 == command.line
        assert line[:7].upper() == b"CONTROL"
        assert command.word in {*WORDS, ""}
        assert bool(command.word) or command.refused
    assert len({command.offset for command in found}) == len(found)


@light
@given(STREAMS)
def test_what_is_heard_does_not_depend_on_what_comes_later(stream: bytes) -> None:
    listener = ControlListener()
    early = listener.feed(stream)
    assert whole(stream + b"\n\nmore\n")[: len(early)] == early


@light
@given(STREAMS)
def test_text_is_heard_like_its_bytes(stream: bytes) -> None:
    text = stream.decode("utf-8", "replace")
    assert whole(text) == whole(text.encode())


def test_half_a_pair_of_surrogates() -> None:
    assert [command.offset for command in whole("\ud83d\nCONTROL: PAUSE")] == [4]


@light
@given(STREAMS, st.booleans())
def test_every_problem_has_a_known_code_a_line_and_a_fix(stream: bytes, strict: bool) -> None:
    text = stream.decode("utf-8", "replace")
    problems = lint_control(text, strict=strict, agents=["mapper"], checkpoints=["ckpt_b"])
    assert {one.code for one in problems} <= set(CODES) | set(DOCUMENT_CODES)
    rows = text.count("\n") + 1
    assert all(one.line is not None and 1 <= one.line <= rows and one.fix for one in problems)
    assert not strict or {one.level for one in problems} <= {"error"}
    assert is_control(text) or not whole(text)


@light
@given(st.text(max_size=200), st.integers(0, 2**40))
def test_any_block_can_be_read(text: str, seed: int) -> None:
    block = random.Random(seed).choice(["", "delegation:\n  ", "delegation: ", "delegation:\n  task:\n    - "]) + text
    found, problems = parse_delegation(block, agents=["mapper"])
    assert found.task or problems


def test_hostile_lines_cost_no_more_than_their_length() -> None:
    for row in (
        "CONTROL:" + " " * 60_000 + "x",
        "CONTROL: PAUSE" + " " * 60_000 + "REASON",
        "CONTROL: DELEGATE " + "[" * 60_000,
        "CONTROL: PAUSE " + "REASON " * 8_000,
        "- " * 30_000,
        "please " * 50 + "pause " + "this " * 60 + "x",
        "pause " + "the " * 90,
        "*" * 60_000,
    ):
        text = f"{row}\n" * 20
        whole(text)
        lint_control(text)
        is_control(text)
