"""Checks that data is what was promised: types, comparison, expressions. Pure."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.contracts.check_files import PARTLY_STEERING, first_program, has_inline_tests, is_steering
    from overhand.contracts.check_files import is_test, own_files, review_group, steering_part
    from overhand.contracts.compare import canonical_json, compare_with_schema
    from overhand.contracts.data import judge_data, pick_field
    from overhand.contracts.expressions import parse_expression
    from overhand.contracts.test_summary import TestSummary, read_pytest_report, read_test_summary
    from overhand.contracts.types import is_optional_field, kinds_of_schema, kinds_of_spec, schema_of, type_mismatch
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "check_files": "PARTLY_STEERING first_program has_inline_tests is_steering is_test own_files review_group "
            "steering_part",
            "compare": "canonical_json compare_with_schema",
            "data": "judge_data pick_field",
            "expressions": "parse_expression",
            "test_summary": "TestSummary read_pytest_report read_test_summary",
            "types": "is_optional_field kinds_of_schema kinds_of_spec schema_of type_mismatch",
        },
    )
