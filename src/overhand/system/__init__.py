"""Files, locks, processes, FIFOs, inotify and git. Nothing here knows about tasks."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.system.bell import Bell, deadline, hung_bells, ring_bells
    from overhand.system.detached import Probe, exit_code, is_child, lives, living_leftovers, probe_process
    from overhand.system.detached import reap_children, shim_pid, start_detached, stop_detached, take_life_lock
    from overhand.system.detached import wait_for_exit
    from overhand.system.edits import Patch, edit_file, is_being_written, merge_patches
    from overhand.system.files import MAX_DOCUMENT, MAX_PLAN, is_there, names_in, put_file, random_text, read_file
    from overhand.system.files import read_named, remove_file, second_name, size_of, write_file, write_new
    from overhand.system.git import is_untracked, linked_worktrees, repository_of, run_git, tag_commit
    from overhand.system.inotify import IN_ATTRIB, IN_CREATE, IN_DELETE, IN_DONT_FOLLOW, IN_IGNORED, IN_ISDIR
    from overhand.system.inotify import IN_MODIFY, IN_MOVED_FROM, IN_MOVED_TO, IN_ONLYDIR, Inotify, wait_for_file
    from overhand.system.jsonline import dump_line, dump_spaced, load_line
    from overhand.system.lock import LOCK_PATIENCE, Lock, busy_error, is_held, is_stopped, lock_holder
    from overhand.system.machine import boot_id, epoch_of, machine_id, now_stamp, pid_namespace
    from overhand.system.members import Members, become_subreaper, process_table, send_signal
    from overhand.system.processes import LINUX, ancestors_of, command_line_has, environment_of, known_sessions
    from overhand.system.processes import outside_runs, pidfd, shim_place, start_time
    from overhand.system.secrets import mask_secrets, shown_address
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "bell": "Bell deadline hung_bells ring_bells",
            "detached": "Probe exit_code is_child lives living_leftovers probe_process reap_children shim_pid "
            "start_detached stop_detached take_life_lock wait_for_exit",
            "edits": "edit_file is_being_written merge_patches",
            "files": "MAX_DOCUMENT MAX_PLAN is_there names_in put_file random_text read_file read_named remove_file "
            "second_name size_of write_file write_new",
            "git": "is_untracked linked_worktrees repository_of run_git tag_commit",
            "inotify": "IN_ATTRIB IN_CREATE IN_DELETE IN_DONT_FOLLOW IN_IGNORED IN_ISDIR IN_MODIFY IN_MOVED_FROM "
            "IN_MOVED_TO IN_ONLYDIR Inotify wait_for_file",
            "jsonline": "dump_line dump_spaced load_line",
            "lock": "LOCK_PATIENCE Lock busy_error is_held is_stopped lock_holder",
            "machine": "boot_id epoch_of machine_id now_stamp pid_namespace",
            "members": "Members become_subreaper process_table send_signal",
            "processes": "LINUX ancestors_of command_line_has environment_of known_sessions outside_runs pidfd "
            "shim_place start_time",
            "secrets": "mask_secrets shown_address",
        },
    )
