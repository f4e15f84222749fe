"""Whether the parts of Baton load and work here, each tried in a child process of its own."""

from typing import TYPE_CHECKING

from baton.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from baton.doctor.offline_watch import Watched, baton_command, watch_program
    from baton.doctor.self_test_process import PARTS, Faulty, Tried, processor, try_part
else:
    __getattr__ = lazy_exports(
        __name__,
        offline_watch="Watched baton_command watch_program",
        self_test_process="PARTS Faulty Tried processor try_part",
    )

__all__ = [
    "PARTS",
    "Faulty",
    "Tried",
    "Watched",
    "baton_command",
    "processor",
    "try_part",
    "watch_program",
]
