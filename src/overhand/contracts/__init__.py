"""Checks that data is what was promised: types, comparison, expressions. Pure."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.contracts.compare import canonical_json, compare_with_schema
    from overhand.contracts.data import judge_data, pick_field
    from overhand.contracts.expressions import parse_expression
    from overhand.contracts.types import is_optional_field, kinds_of_schema, kinds_of_spec, schema_of, type_mismatch
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "compare": "canonical_json compare_with_schema",
            "data": "judge_data pick_field",
            "expressions": "parse_expression",
            "types": "is_optional_field kinds_of_schema kinds_of_spec schema_of type_mismatch",
        },
    )
