"""The one process per project: queue, live runs, plans, tag daemon, meter, notifications; and its client."""
