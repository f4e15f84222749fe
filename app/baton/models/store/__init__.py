"""The folder where models lie: their records, their files, and what other programs have.

Nothing here reads a whole model file, and nothing is deleted but what Baton wrote itself.
"""

from typing import TYPE_CHECKING

from baton.core.lazy_loading import lazy_exports

if TYPE_CHECKING:
    from baton.models.store.model_store import FolderModelStore as FolderModelStore
else:
    __getattr__ = lazy_exports(
        __name__,
        model_store="FolderModelStore",
    )
