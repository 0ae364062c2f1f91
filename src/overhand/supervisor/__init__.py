"""The one process per project: queue, live runs, plans, tag daemon, meter, notifications; and its client."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.supervisor.calls import TakenCall
    from overhand.supervisor.client import ask_supervisor, daemon_log, daemon_state, hand_to_supervisor
    from overhand.supervisor.client import running_supervisor, turn_daemon_off, turn_daemon_on, wake_supervisor
    from overhand.supervisor.notifications import SCREEN_SIGNS
    from overhand.supervisor.tmux import watch_in_tmux
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "calls": "TakenCall",
            "client": "ask_supervisor daemon_log daemon_state hand_to_supervisor running_supervisor turn_daemon_off "
            "turn_daemon_on wake_supervisor",
            "notifications": "SCREEN_SIGNS",
            "tmux": "watch_in_tmux",
        },
    )
