"""A working tree per task: a repository of its own that borrows the project's objects. Nothing else writes with git."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.trees.commits import list_commits
    from overhand.trees.committer import Committer
    from overhand.trees.create import Request, create_tree
    from overhand.trees.include import include_files
    from overhand.trees.keep import check_agents_git, drop_dangling_refs, empty_trash, follow_project, keep_part
    from overhand.trees.keep import remove_tree, restore_tree
    from overhand.trees.land import Landing, land_on_branch, land_work
    from overhand.trees.merge import Conflict, merge_trees, trees_of
    from overhand.trees.part import Part, diff_part, note_byproducts, take_part
    from overhand.trees.place import tree_path, trees_root
    from overhand.trees.ports import reserve_ports
    from overhand.trees.recover import Head, read_head, recover_landings
    from overhand.trees.snapshot import changed_between, find_filters
    from overhand.trees.tree import Changed, Tree, has_tree, load_tree
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "commits": "list_commits",
            "committer": "Committer",
            "create": "Request create_tree",
            "include": "include_files",
            "keep": "check_agents_git drop_dangling_refs empty_trash follow_project keep_part remove_tree restore_tree",
            "land": "Landing land_on_branch land_work",
            "merge": "Conflict merge_trees trees_of",
            "part": "Part diff_part note_byproducts take_part",
            "place": "tree_path trees_root",
            "ports": "reserve_ports",
            "recover": "Head read_head recover_landings",
            "snapshot": "changed_between find_filters",
            "tree": "Changed Tree has_tree load_tree",
        },
    )
