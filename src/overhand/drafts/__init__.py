"""The one task builder: words, items, nodes and CONTROL lines in, a checked draft of a task out."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.drafts.alerts import FoundAlert, find_alerts, raise_alert, resolve_alert, with_alerts
    from overhand.drafts.brief import CONTRACT_FILE, Brief, brief_from_words, checked_budget, nothing_to_do
    from overhand.drafts.brief import only_from_people, read_document, session_owner
    from overhand.drafts.build import Draft, build_draft, check_delegation, require_no_cycle, workspace_of
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "alerts": "FoundAlert find_alerts raise_alert resolve_alert with_alerts",
            "brief": "CONTRACT_FILE Brief brief_from_words checked_budget nothing_to_do only_from_people "
            "read_document session_owner",
            "build": "Draft build_draft check_delegation require_no_cycle workspace_of",
        },
    )
