"""Whether the parts of Baton load and work here, each used in a child process of its own."""

from typing import TYPE_CHECKING

from baton.core.lazy_loading import lazy_exports

if TYPE_CHECKING:
    from baton.doctor.child_processes import (
        PARTS as PARTS,
        PartFailed as PartFailed,
        PartResult as PartResult,
        WatchResult as WatchResult,
        baton_command as baton_command,
        processor_text as processor_text,
        use_part_in_child as use_part_in_child,
        watch_program as watch_program,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        child_processes=(
            "PARTS PartFailed PartResult WatchResult baton_command processor_text "
            "use_part_in_child watch_program"
        ),
    )
