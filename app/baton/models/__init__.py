"""Models: which there are, which suit a machine, and what they do."""

from typing import TYPE_CHECKING

from baton.core.lazy_loading import lazy_exports

if TYPE_CHECKING:
    from baton.models.file_import import ModelImport as ModelImport
    from baton.models.library import Library as Library
    from baton.models.model_download import ModelDownload as ModelDownload
    from baton.models.ports import (
        DoesNotFit as DoesNotFit,
        ExternalModel as ExternalModel,
        LibraryModel as LibraryModel,
        ModelState as ModelState,
        NeedsAgreement as NeedsAgreement,
    )
    from baton.models.recommendation import (
        Pick as Pick,
        Recommendation as Recommendation,
        expected_speed as expected_speed,
    )
    from baton.models.store import FolderModelStore as FolderModelStore
else:
    __getattr__ = lazy_exports(
        __name__,
        store="FolderModelStore",
        file_import="ModelImport",
        library="Library",
        model_download="ModelDownload",
        ports="DoesNotFit ExternalModel LibraryModel ModelState NeedsAgreement",
        recommendation="Pick Recommendation expected_speed",
    )
