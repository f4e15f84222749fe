"""Whether the parts of Baton load and work here, each tried in a child process of its own."""

from typing import TYPE_CHECKING

from baton.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from baton.doctor.offline_watch import WatchResult, baton_command, watch_program
    from baton.doctor.self_test_process import (
        PARTS,
        PartFailed,
        PartResult,
        processor_text,
        use_part_in_child,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        offline_watch="WatchResult baton_command watch_program",
        self_test_process="PARTS PartFailed PartResult processor_text use_part_in_child",
    )

__all__ = [
    "PARTS",
    "PartFailed",
    "PartResult",
    "WatchResult",
    "baton_command",
    "processor_text",
    "use_part_in_child",
    "watch_program",
]
