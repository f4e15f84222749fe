"""The folder where models are: their records, their files, and what other programs have.

Nothing here reads a whole model file, and nothing is deleted but what Baton wrote itself.
"""

from baton.models.store.model_store import FolderModelStore as FolderModelStore
