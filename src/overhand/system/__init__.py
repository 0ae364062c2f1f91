"""Files, locks, processes, FIFOs, inotify and git. Nothing here knows about tasks."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.system.beneath import Beneath
    from overhand.system.detached import Probe, exit_code, hold_life, is_child, lives, living_leftovers
    from overhand.system.detached import probe_process, reap_children, shim_pid, start_detached, stop_detached
    from overhand.system.detached import wait_for_exit
    from overhand.system.edits import Patch, Renames, edit_file, is_being_written, merge_patches
    from overhand.system.files import LOCK_PATIENCE, MAX_DOCUMENT, MAX_PLAN, Lock, brought, busy_error, dump_line
    from overhand.system.files import dump_spaced, has_live_holder, has_reader, is_held, is_own, is_stopped
    from overhand.system.files import is_there, kernel_holder, load_line, lock_holder, names_in, open_to_read
    from overhand.system.files import put_file, put_new, random_text, read_file, read_given, read_named, remove_file
    from overhand.system.files import second_name, size_of, write_file, write_new
    from overhand.system.git import OUR_IDENTITY, Git, Repository, find_git, find_repository, is_safe_directory
    from overhand.system.git import is_untracked, linked_worktrees, repository_of, run_git, tag_commit
    from overhand.system.git import tracked_files
    from overhand.system.git_steering import changed_marks, git_marks
    from overhand.system.machine import LINUX, ancestors_of, boot_id, command_line_has, environment_of, epoch_of
    from overhand.system.machine import find_program, held_lives, home_of_run, known_sessions, machine_id
    from overhand.system.machine import mask_secrets, now_stamp, outside_runs, pid_namespace, pidfd
    from overhand.system.machine import secret_variables, shim_place, shown_address, start_time
    from overhand.system.members import Members, become_subreaper, process_table, send_signal
    from overhand.system.shield import Plan, Walls, plan_mounts, probe_shield, shield_facts, shield_words
    from overhand.system.shield import wanted_shield
    from overhand.system.wakeup import IN_ATTRIB, IN_CREATE, IN_DELETE, IN_DONT_FOLLOW, IN_IGNORED, IN_ISDIR
    from overhand.system.wakeup import IN_MODIFY, IN_MOVED_FROM, IN_MOVED_TO, IN_ONLYDIR, Bell, Inotify, deadline
    from overhand.system.wakeup import ring_bells, wait_for_file
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "beneath": "Beneath",
            "detached": "Probe exit_code hold_life is_child lives living_leftovers probe_process reap_children "
            "shim_pid start_detached stop_detached wait_for_exit",
            "edits": "Renames edit_file is_being_written merge_patches",
            "files": "LOCK_PATIENCE MAX_DOCUMENT MAX_PLAN Lock brought busy_error dump_line dump_spaced "
            "has_live_holder has_reader is_held is_own is_stopped is_there kernel_holder load_line "
            "lock_holder names_in open_to_read put_file put_new random_text read_file read_given read_named "
            "remove_file second_name size_of write_file write_new",
            "git": "OUR_IDENTITY Git Repository find_git find_repository is_safe_directory is_untracked "
            "linked_worktrees repository_of run_git tag_commit tracked_files",
            "git_steering": "changed_marks git_marks",
            "machine": "LINUX ancestors_of boot_id command_line_has environment_of epoch_of find_program held_lives "
            "home_of_run known_sessions machine_id mask_secrets now_stamp outside_runs pid_namespace pidfd "
            "secret_variables shim_place shown_address start_time",
            "members": "Members become_subreaper process_table send_signal",
            "shield": "Plan Walls plan_mounts probe_shield shield_facts shield_words wanted_shield",
            "wakeup": "IN_ATTRIB IN_CREATE IN_DELETE IN_DONT_FOLLOW IN_IGNORED IN_ISDIR IN_MODIFY IN_MOVED_FROM "
            "IN_MOVED_TO IN_ONLYDIR Bell Inotify deadline ring_bells wait_for_file",
        },
    )
