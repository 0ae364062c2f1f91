"""parse(render(x)) == x, for hostile x."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from overhand.documents import alert, context, handoff, ipc, output, request, returns
from overhand.documents.contracts import ContractBlock, parse_block, render_block
from overhand.documents.jsontext import dump, load
from overhand.documents.layout import contain, read_sheet, section, tidy
from overhand.documents.problems import has_errors
from overhand.questions import record
from support import strategies as make
from support.strategies import light


@light
@given(make.body, make.body)
def test_body_stays_in_its_section(first: str, second: str) -> None:
    text = section("Task", contain(first)) + section("Context", contain(second))
    sheet = read_sheet(text, {"task": "task", "context": "context"})
    assert (sheet.body("task"), sheet.body("context"), sheet.extra) == (first, second, [])


@light
@given(make.body)
def test_contained_text_without_special_lines_is_untouched(text: str) -> None:
    if not any(mark in text for mark in ("#", "```", "~~~", "<!--", "===")):
        assert contain(text) == text
    assert tidy(contain(text)) == text


@light
@given(make.handoffs)
def test_handoff(value: handoff.Handoff) -> None:
    assert handoff.parse(handoff.render(value)) == value


@light
@given(make.handoffs)
def test_handoff_is_stable_after_one_reading(value: handoff.Handoff) -> None:
    text = handoff.render(value)
    assert handoff.render(handoff.parse(text)) == text


@light
@given(make.outputs)
def test_output(value: output.Output) -> None:
    found, problems = output.parse(output.render(value))
    assert found == value
    assert not has_errors(problems)


@light
@given(make.contexts)
def test_context(value: context.Context) -> None:
    found, problems = context.parse(context.render(value))
    assert found == value
    assert not has_errors(problems)


@light
@given(make.alerts)
def test_alert(value: alert.Alert) -> None:
    found, problems = alert.parse(alert.render(value))
    assert found == value
    assert not has_errors(problems)


@light
@given(make.requests)
def test_request(value: request.Request) -> None:
    found, problems = request.parse(request.render(value))
    assert found == value
    assert not has_errors(problems)


@light
@given(make.questions)
def test_question(value: ipc.Question) -> None:
    text = record.question_text(value.seq, value.timestamp, value.question, value.options, value.checklist_item)
    assert ipc.parse_question(text, value.seq) == (value, [])


@light
@given(make.answers)
def test_answer(value: ipc.Answer) -> None:
    text = record.answer_text(value.seq, value.timestamp, value.answer)
    assert ipc.parse_answer(text, value.seq) == (value, [])


@light
@given(make.returns)
def test_return(value: returns.Return) -> None:
    read, error = load(dump(value.as_json()))
    found, problems = returns.parse_return(read)
    assert not error
    assert found == value
    assert not has_errors(problems)


@light
@given(make.returns)
def test_return_is_found_in_prose(value: returns.Return) -> None:
    read, _ = load(dump(value.as_json()))
    for text in (
        dump(read),
        f"Done {{ see below.\n```json\n{dump(read)}\n```\nBye }} '\"",
        f"I say {dump(read)} end",
    ):
        assert returns.find_return(text) == read


@light
@given(make.blocks)
def test_contract_block(value: ContractBlock) -> None:
    found, problems = parse_block(render_block(value))
    assert found == value
    assert not has_errors(problems)


@light
@given(make.outputs, make.blocks)
def test_output_with_a_contract(value: output.Output, block: ContractBlock) -> None:
    value = replace(value, data=block.data, contract=block.name)
    assert output.parse(output.render(value))[0] == value


@light
@given(make.outputs)
def test_output_and_return_convert(value: output.Output) -> None:
    plain = replace(
        value, extra=(), duration="90s", for_primary=value.for_primary.strip(), summary=value.summary.strip()
    )
    assert returns.to_output(returns.from_output(plain), value.title) == plain


@light
@given(make.handoffs, make.outputs)
def test_crlf_reads_as_lf(given_: handoff.Handoff, value: output.Output) -> None:
    assert handoff.parse(handoff.render(given_).replace("\n", "\r\n")) == given_
    assert output.parse(output.render(value).replace("\n", "\r\n"))[0] == value
