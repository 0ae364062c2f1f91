"""The one process per project: queue, live runs, plans, tag daemon, meter, notifications; and its client."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.supervisor.client import ask_supervisor, hand_to_supervisor, running_supervisor, wake_supervisor
    from overhand.supervisor.notify.channels import SCREEN_SIGNS
    from overhand.supervisor.switch import daemon_log, daemon_state, turn_daemon_off, turn_daemon_on
    from overhand.supervisor.tmux import watch_in_tmux
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "client": "ask_supervisor hand_to_supervisor running_supervisor wake_supervisor",
            "notify.channels": "SCREEN_SIGNS",
            "switch": "daemon_log daemon_state turn_daemon_off turn_daemon_on",
            "tmux": "watch_in_tmux",
        },
    )
