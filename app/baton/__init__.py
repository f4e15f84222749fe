"""Baton: a conductor's baton for language models, on your own machine.

`from baton import ...` gives the names in `__all__`, which docs/library.md describes. They load at
their first use, so that `import baton` stays cheap. All other modules may change without notice.
"""

from baton.core.lazy_loading import lazy_exports

__version__ = "0.1.0"

TYPE_CHECKING = False  # typing's own would import it

_HOMES = {
    "core.events": "Failed Finished StepText",
    "core.messages": "Card Finish Prompt Request Text Usage",
    "core.permissions": "PromptLimits",
    "core.plan_types": "Plan Step",
    "core.ports": "Worker",
    "core.run.orchestra": "Orchestra",
    "core.run.run_context": "Services",
    "history": "Store",
    "workers": "ScriptedWorker",
}
__all__ = sorted(name for names in _HOMES.values() for name in names.split())

if TYPE_CHECKING:
    from baton.core.events import Failed as Failed, Finished as Finished, StepText as StepText
    from baton.core.messages import (
        Card as Card,
        Finish as Finish,
        Prompt as Prompt,
        Request as Request,
        Text as Text,
        Usage as Usage,
    )
    from baton.core.permissions import PromptLimits as PromptLimits
    from baton.core.plan_types import Plan as Plan, Step as Step
    from baton.core.ports import Worker as Worker
    from baton.core.run.orchestra import Orchestra as Orchestra
    from baton.core.run.run_context import Services as Services
    from baton.history import Store as Store
    from baton.workers import ScriptedWorker as ScriptedWorker
else:
    __getattr__ = lazy_exports(__name__, **_HOMES)
