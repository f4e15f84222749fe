"""Remote workers: every call to them goes through the gateway process."""

from typing import TYPE_CHECKING

from baton.core.lazy_loading import lazy_exports

if TYPE_CHECKING:
    from baton.workers.cloud.address_pool import WorkerAddress as WorkerAddress
    from baton.workers.cloud.gateway import Gateway as Gateway
    from baton.workers.cloud.model_settings import LearnedSettings as LearnedSettings
    from baton.workers.cloud.price_table import (
        Snapshot as Snapshot,
        cheapest_model as cheapest_model,
        price_of as price_of,
        snapshot as snapshot,
    )
    from baton.workers.cloud.provider_models import (
        did_you_mean as did_you_mean,
        full_names as full_names,
        known_provider as known_provider,
        provider_model as provider_model,
        provider_refusals as provider_refusals,
        unknown_provider as unknown_provider,
        why_unusable as why_unusable,
    )
    from baton.workers.cloud.redaction import (
        KEY as KEY,
        MAIL as MAIL,
        PASSWORD as PASSWORD,
        Redaction as Redaction,
    )
    from baton.workers.cloud.worker import CloudWorker as CloudWorker
else:
    __getattr__ = lazy_exports(
        __name__,
        address_pool="WorkerAddress",
        gateway="Gateway",
        model_settings="LearnedSettings",
        provider_models=(
            "did_you_mean full_names known_provider provider_model provider_refusals"
            " unknown_provider why_unusable"
        ),
        price_table="Snapshot cheapest_model price_of snapshot",
        redaction="KEY MAIL PASSWORD Redaction",
        worker="CloudWorker",
    )
