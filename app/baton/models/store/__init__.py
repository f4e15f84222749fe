"""The folder where models lie: what is recorded of each, what is left over, what others have.

`FolderModelStore` is the façade; the modules beside it hold plain functions over paths. Nothing here
reads a whole model file, and nothing is deleted but what Baton wrote itself.
"""

from baton.models.store.model_store import FolderModelStore

__all__ = ["FolderModelStore"]
