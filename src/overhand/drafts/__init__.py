"""The one task builder: words, items, nodes and CONTROL lines in, a checked draft of a task out."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.drafts.alerts import FoundAlert, find_alerts, raise_alert, resolve_alert, with_alerts
    from overhand.drafts.build import Brief, Draft, build_draft
    from overhand.drafts.guards import check_delegation, workspace_of
    from overhand.drafts.handoff import CONTRACT_FILE, nothing_to_do, read_document
    from overhand.drafts.words import brief_from_words, checked_budget, only_from_people, session_owner
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "alerts": "FoundAlert find_alerts raise_alert resolve_alert with_alerts",
            "build": "Brief Draft build_draft",
            "guards": "check_delegation workspace_of",
            "handoff": "CONTRACT_FILE nothing_to_do read_document",
            "words": "brief_from_words checked_budget only_from_people session_owner",
        },
    )
