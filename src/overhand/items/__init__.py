"""Tags in Markdown and the tasks behind them."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.items.approve import approve_item, claim_item_outside, draft_of_item, hand_item_back, item_holder
    from overhand.items.approve import may_approve, may_move, queue_item, reconcile_items, require_approver
    from overhand.items.approve import restage_item
    from overhand.items.find import Hit, is_text, literal_prefix, search_tags, shown_path, tag_matcher, with_hash
    from overhand.items.index import TagHit, TagIndex
    from overhand.items.item import ItemPlace, PastItems, all_items, items_in_file, items_in_order, original_place
    from overhand.items.item import record_of_item, resolve_item
    from overhand.items.promote import create_file, free_names
    from overhand.items.sync import DISMISSED, claim_tag, is_tag_behind, recovery_events, retry_not_before
    from overhand.items.sync import sync_locked_tag, sync_tag, tag_removal, wanted_stage, why_it_waits
    from overhand.items.typed import handle_changed_file
    from overhand.items.unrecorded import note_ended_leftovers, remember_tags, tags_known_at, unrecorded_tags
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "approve": "approve_item claim_item_outside draft_of_item hand_item_back item_holder may_approve may_move "
            "queue_item reconcile_items require_approver restage_item",
            "find": "is_text literal_prefix search_tags shown_path tag_matcher with_hash",
            "index": "TagHit TagIndex",
            "item": "ItemPlace PastItems all_items items_in_file items_in_order original_place record_of_item "
            "resolve_item",
            "promote": "create_file free_names",
            "sync": "DISMISSED claim_tag is_tag_behind recovery_events retry_not_before sync_locked_tag sync_tag "
            "tag_removal wanted_stage why_it_waits",
            "typed": "handle_changed_file",
            "unrecorded": "note_ended_leftovers remember_tags tags_known_at unrecorded_tags",
        },
    )
