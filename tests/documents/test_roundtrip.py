"""parse(render(x)) == x, for hostile x."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from overhand.documents import (
    Alert,
    Context,
    Deliverable,
    Handoff,
    Output,
    Request,
    Return,
    contain_in_section,
    dump_json,
    find_return,
    has_errors,
    ipc,
    is_flawless,
    lint_handoff,
    load_json,
    parse_alert,
    parse_context,
    parse_handoff,
    parse_output,
    parse_question,
    parse_request,
    parse_return,
    render_alert,
    render_context,
    render_handoff,
    render_output,
    render_request,
    return_to_output,
)
from overhand.documents.contracts import ContractBlock, parse_block, render_block
from overhand.documents.ipc import parse_answer
from overhand.documents.layout import read_sheet, section, tidy
from overhand.documents.returns import return_from_output
from overhand.questions import record
from support import strategies as make
from support.strategies import light


@light
@given(make.body, make.body)
def test_body_stays_in_its_section(first: str, second: str) -> None:
    text = section("Task", contain_in_section(first)) + section("Context", contain_in_section(second))
    sheet = read_sheet(text, {"task": "task", "context": "context"})
    assert (sheet.body("task"), sheet.body("context"), sheet.extra) == (first, second, [])


@light
@given(make.body)
def test_contained_text_without_special_lines_is_untouched(text: str) -> None:
    if not any(mark in text for mark in ("#", "```", "~~~", "<!--", "===")):
        assert contain_in_section(text) == text
    assert tidy(contain_in_section(text)) == text


@light
@given(make.handoffs)
def test_handoff(value: Handoff) -> None:
    assert parse_handoff(render_handoff(value)) == value


_odd = st.text(alphabet="ab A1.:-#*+>`~=_|[]()<!\\\n\t\r\u2028\u00a0", max_size=24)
_entry = _odd | st.from_regex(r"[A-Za-z][\w ,.;:'/-]{0,20}[\w.]", fullmatch=True)
_perhaps_plain = st.builds(
    Handoff,
    task=st.just("Count the tiles of the roof") | _odd,
    context=_odd,
    constraints=st.lists(_entry, max_size=2).map(tuple),
    deliverables=st.lists(st.builds(Deliverable, _entry), min_size=1, max_size=2).map(tuple),
    return_requirements=st.just("- What was done") | _odd,
    contract=_odd,
    previous=_odd,
)


@light
@given(_perhaps_plain | make.handoffs)
def test_a_flawless_handoff_need_not_be_read(value: Handoff) -> None:
    if is_flawless(value):
        text = render_handoff(value)
        assert (parse_handoff(text), lint_handoff(text)) == (value, [])


@light
@given(make.handoffs)
def test_handoff_is_stable_after_one_reading(value: Handoff) -> None:
    text = render_handoff(value)
    assert render_handoff(parse_handoff(text)) == text


@light
@given(make.outputs)
def test_output(value: Output) -> None:
    found, problems = parse_output(render_output(value))
    assert found == value
    assert not has_errors(problems)


@light
@given(make.contexts)
def test_context(value: Context) -> None:
    found, problems = parse_context(render_context(value))
    assert found == value
    assert not has_errors(problems)


@light
@given(make.alerts)
def test_alert(value: Alert) -> None:
    found, problems = parse_alert(render_alert(value))
    assert found == value
    assert not has_errors(problems)


@light
@given(make.requests)
def test_request(value: Request) -> None:
    found, problems = parse_request(render_request(value))
    assert found == value
    assert not has_errors(problems)


@light
@given(make.questions)
def test_question(value: ipc.QuestionFile) -> None:
    text = record.question_text(value.seq, value.timestamp, value.question, value.options, value.checklist_item)
    assert parse_question(text, value.seq) == (value, [])


@light
@given(make.answers)
def test_answer(value: ipc.AnswerFile) -> None:
    text = record.answer_text(value.seq, value.timestamp, value.answer)
    assert parse_answer(text, value.seq) == (value, [])


@light
@given(make.returns)
def test_return(value: Return) -> None:
    read, error = load_json(dump_json(value.as_json()))
    found, problems = parse_return(read)
    assert not error
    assert found == value
    assert not has_errors(problems)


@light
@given(make.returns)
def test_return_is_found_in_prose(value: Return) -> None:
    read, _ = load_json(dump_json(value.as_json()))
    for text in (
        dump_json(read),
        f"Done {{ see below.\n```json\n{dump_json(read)}\n```\nBye }} '\"",
        f"I say {dump_json(read)} end",
    ):
        assert find_return(text) == read


@light
@given(make.blocks)
def test_contract_block(value: ContractBlock) -> None:
    found, problems = parse_block(render_block(value))
    assert found == value
    assert not has_errors(problems)


@light
@given(make.outputs, make.blocks)
def test_output_with_a_contract(value: Output, block: ContractBlock) -> None:
    value = replace(value, data=block.data, contract=block.name)
    assert parse_output(render_output(value))[0] == value


@light
@given(make.outputs)
def test_output_and_return_convert(value: Output) -> None:
    plain = replace(
        value, extra=(), duration="90s", for_primary=value.for_primary.strip(), summary=value.summary.strip()
    )
    assert return_to_output(return_from_output(plain), value.title) == plain


@light
@given(make.handoffs, make.outputs)
def test_crlf_reads_as_lf(given_: Handoff, value: Output) -> None:
    assert parse_handoff(render_handoff(given_).replace("\n", "\r\n")) == given_
    assert parse_output(render_output(value).replace("\n", "\r\n"))[0] == value
