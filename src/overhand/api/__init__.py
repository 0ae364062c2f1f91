"""The Python API: projects, tasks and function agents in the calling process."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.api.project import Project, Task
    from overhand.api.values import Result
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "project": "Project Task",
            "values": "Result",
        },
    )
