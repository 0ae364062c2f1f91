"""A working tree per task: a repository of its own that borrows the project's objects. Nothing else writes with git."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.trees.create import Request, create_tree
    from overhand.trees.keep import check_agents_git, drop_dangling_refs, follow_project, keep_part, restore_tree
    from overhand.trees.part import Part, diff_part, note_byproducts, take_part
    from overhand.trees.place import tree_path, trees_root
    from overhand.trees.ports import reserve_ports
    from overhand.trees.snapshot import changed_between
    from overhand.trees.tree import Changed, Tree, has_tree, load_tree
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "create": "Request create_tree",
            "keep": "check_agents_git drop_dangling_refs follow_project keep_part restore_tree",
            "part": "Part diff_part note_byproducts take_part",
            "place": "tree_path trees_root",
            "ports": "reserve_ports",
            "snapshot": "changed_between",
            "tree": "Changed Tree has_tree load_tree",
        },
    )
