"""The documents that agents and people read and write: render, parse, lint. Pure: no files, no clock."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.documents.agentfile import AgentFile, agent_name, parse_agent_file, settings_problems
    from overhand.documents.alert import ALERT_ACTIVE, ALERT_DONE, Alert, alert_file_name, parse_alert, render_alert
    from overhand.documents.appendix import add_note, add_recovery, put_response
    from overhand.documents.checkpoint import Checkpoint, CheckpointBudget, CheckpointCommand, CheckpointDelegation
    from overhand.documents.checkpoint import checkpoint_as_json, parse_checkpoint, quick_of, render_checkpoint
    from overhand.documents.checkpoint import render_full_checkpoint
    from overhand.documents.context import Context, parse_context, render_context
    from overhand.documents.contracts import CONTRACTS, contract_for_kind, contract_form, contract_name
    from overhand.documents.contracts import has_contract_fields, validate_data
    from overhand.documents.control.delegation import ControlDelegation, parse_delegation
    from overhand.documents.control.lint import is_control, lint_control
    from overhand.documents.control.listener import ControlCommand, ControlListener
    from overhand.documents.decisions import Decision
    from overhand.documents.handoff import DEFAULT_RETURN, Deliverable, Handoff, HandoffStep, KeyFile
    from overhand.documents.handoff import expected_of_kind, is_flawless, is_vague, lint_handoff, parse_handoff
    from overhand.documents.handoff import promises_files, read_deliverable, render_handoff, wanted_contract
    from overhand.documents.handoff import with_kind_defaults
    from overhand.documents.ipc import parse_question
    from overhand.documents.jsonc import NotJson, drop_entry, put_entry, read_jsonc
    from overhand.documents.layout import FileNote, Section, contain_in_section, looks_like_path
    from overhand.documents.lint import document_kind, lint_document
    from overhand.documents.markdown import BOM, MarkdownLine, Part, front_matter_end, markdown_headings
    from overhand.documents.markdown import markdown_sections, task_lines
    from overhand.documents.output import Listed, Output, parse_output, render_output
    from overhand.documents.paths import Look, NamedFile, promised_path
    from overhand.documents.problems import Problem, as_errors, by_line, has_errors, warning, wrong
    from overhand.documents.quick import Quick, count_words, done_entry, parse_quick, quick_text, render_quick
    from overhand.documents.quick import too_wordy, upcoming_entry
    from overhand.documents.request import Request, parse_request, render_request, request_file_name
    from overhand.documents.request import request_to_handoff
    from overhand.documents.returns import Reading, Return, find_return, load_return, named_files, parse_return
    from overhand.documents.returns import read_document, return_to_output
    from overhand.documents.tags import TAG_STAGES, Tag, is_tag, item_digest, item_weights, kind_of_tag, line_text
    from overhand.documents.tags import patch_adding_tag, patch_swapping_tag, patches_removing_tag, scan_tags
    from overhand.documents.tags import stage_of_tag, tag_comment, tag_row
    from overhand.documents.text import decode_text, dump_json, finite_float, load_json, one_line, plain_quotes
    from overhand.documents.text import refuse_number, shorten, unix_lines
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "agentfile": "AgentFile agent_name parse_agent_file settings_problems",
            "alert": "ALERT_ACTIVE ALERT_DONE Alert alert_file_name parse_alert render_alert",
            "appendix": "add_note add_recovery put_response",
            "checkpoint": "Checkpoint CheckpointBudget CheckpointCommand CheckpointDelegation checkpoint_as_json "
            "parse_checkpoint quick_of render_checkpoint render_full_checkpoint",
            "context": "Context parse_context render_context",
            "contracts": "CONTRACTS contract_for_kind contract_form contract_name has_contract_fields validate_data",
            "control.delegation": "ControlDelegation parse_delegation",
            "control.lint": "is_control lint_control",
            "control.listener": "ControlCommand ControlListener",
            "decisions": "Decision",
            "handoff": "DEFAULT_RETURN Deliverable Handoff HandoffStep KeyFile expected_of_kind is_flawless is_vague "
            "lint_handoff parse_handoff promises_files read_deliverable render_handoff wanted_contract "
            "with_kind_defaults",
            "ipc": "parse_question",
            "jsonc": "NotJson drop_entry put_entry read_jsonc",
            "layout": "FileNote Section contain_in_section looks_like_path",
            "lint": "document_kind lint_document",
            "markdown": "BOM MarkdownLine Part front_matter_end markdown_headings markdown_sections task_lines",
            "output": "Listed Output parse_output render_output",
            "paths": "Look NamedFile promised_path",
            "problems": "Problem as_errors by_line has_errors warning wrong",
            "quick": "Quick count_words done_entry parse_quick quick_text render_quick too_wordy upcoming_entry",
            "request": "Request parse_request render_request request_file_name request_to_handoff",
            "returns": "Reading Return find_return load_return named_files parse_return read_document return_to_output",
            "tags": "TAG_STAGES Tag is_tag item_digest item_weights kind_of_tag line_text patch_adding_tag "
            "patch_swapping_tag patches_removing_tag scan_tags stage_of_tag tag_comment tag_row",
            "text": "decode_text dump_json finite_float load_json one_line plain_quotes refuse_number shorten "
            "unix_lines",
        },
    )
