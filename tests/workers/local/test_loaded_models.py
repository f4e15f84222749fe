"""What is loaded now, seen from any process of this user."""

from __future__ import annotations

import os

from baton.core.messages import Message, Request, Role
from baton.workers.local import Memory, starter
from baton.workers.local.model_memory import LoadedModel, list_loaded_models
from support.local_worker_calls import local_worker


def mine() -> list[LoadedModel]:
    return [one for one in list_loaded_models() if one.front == os.getpid()]


async def test_a_loaded_model_is_seen_with_its_file_and_memory() -> None:
    model = starter()
    worker = local_worker(model.card, model.path, Memory())
    try:
        async for _ in worker.stream(Request((Message(Role.USER, "Hi"),), max_tokens=1)):
            pass
        [one] = mine()
        assert one.path is not None
        assert one.path.samefile(model.path)
        assert one.memory > model.path.stat().st_size / 2
    finally:
        await worker.aclose()
    assert mine() == []
