"""What real agents are told of a contract, and the ways in which they write what it asks for: read without a repair."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.real_agents import FIRST, REST, house

if TYPE_CHECKING:
    from pathlib import Path

    from support.real_agents import House

pytestmark = pytest.mark.soak  # real agents

TEMPLATE = "```text\n=== RESEARCH OUTPUT ===\nQUERY: <query>\nCONFIDENCE: high or medium or low BECAUSE <why>\n"
BLOCK = """=== RESEARCH OUTPUT ===
QUERY: Where are totals rounded?
CONFIDENCE: High, because both callers were read
CORE_FINDING: Only in money.py.

EVIDENCE:
- rounding: `round(total, 2)` | SOURCE: money.py:12

GAPS:
- None
=== END ===
"""
CHATTY = f"""# ✅ Task Complete: Rounding

**Status:** ✅ Completed
**Agent:** it

## 📝 Summary
Totals are rounded in one place.

## Research Output

```text
{BLOCK}```

Let me know if you need anything else!
"""
SAID = f"Only one place rounds totals. Here is the block you asked for:\n\n```\n{BLOCK}```"
DONE = {"text": "The report is written."}


def written(text: str) -> list[dict[str, Any]]:
    """An agent that writes its return by its own tool for files."""
    return [{"ops": [{"write": {"path": "{output}", "content": text}}]}, DONE]


def by_shell(text: str) -> list[dict[str, Any]]:
    return [{"ops": [{"bash": {"command": f"cat > \"$OVERHAND_OUTPUT\" <<'EOF'\n{text}EOF"}}]}, DONE]


def prompt_of(place: House) -> str:
    """What its one run was given; the model has got it, for it names the script that the model plays."""
    (prompt,) = place.record.glob("tasks/*/runs/*/prompt.md")
    return prompt.read_text()


WAYS = {"alone": written(BLOCK), "chatty": written(CHATTY), "shell": by_shell(CHATTY), "said": [{"text": SAID}]}


@pytest.mark.case("contract")
@pytest.mark.parametrize(
    ("name", "way"),
    [
        *((name, way) for name in (*FIRST, *REST) for way in ("alone", "chatty", "said")),
        *((name, "shell") for name in ("codex", "goose")),  # others may not write by a command at level read
    ],
)
def test_a_block_is_read_as_the_agent_writes_it(name: str, way: str, tmp_path: Path) -> None:
    with house(name, tmp_path, {"find": WAYS[way]}) as place:
        done = place.delegate("Find out where totals are rounded. script:find", "--kind", "research")
        assert done["status"] == "completed", (done["problems"], place.stream(done["runs"][-1]))
        assert (len(done["runs"]), done["repairs"], done["verification"]) == (1, 0, "passing")
        assert place.turns("find") == list(range(len(WAYS[way]))), "nothing held it back either"
        assert (done["data"]["confidence"], done["data"]["core_finding"]) == ("high", "Only in money.py.")
        assert TEMPLATE in prompt_of(place)


SCHEMA = {"type": "object", "required": ["total"], "properties": {"total": {"type": "integer"}}}
REPORT = "# Task Complete: it\n\n**Status:** completed\n\n## Summary\nCounted.\n"


@pytest.mark.case("contract")
@pytest.mark.parametrize("name", [*FIRST, *REST])
def test_data_of_a_schema_that_the_agent_was_shown(name: str, tmp_path: Path) -> None:
    data = '\n## Data\n```json\n{"total": 12}\n```\n'
    with house(name, tmp_path, {"count": written(REPORT + data)}) as place:
        (place.path / "figures.json").write_text(json.dumps(SCHEMA))
        done = place.delegate("Count the tests. script:count", "--contract", "figures.json", "--read-only")
        assert done["status"] == "completed", (done["problems"], place.stream(done["runs"][-1]))
        assert (len(done["runs"]), done["repairs"], done["data"]) == (1, 0, {"total": 12})
        assert (done["verification"], done["proof"]) == ("proved", "data")
        assert '"required": [\n  "total"\n ]' in prompt_of(place)
