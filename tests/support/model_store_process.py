"""A Baton that changes the models folder again and again, until it is killed or done."""

from __future__ import annotations

import sys
from pathlib import Path

from baton.core.errors import ConfigError
from baton.models.ports import FileStamp, ModelRecord
from baton.models.store import FolderModelStore


def record_of(number: int, who: str = "x") -> ModelRecord:
    """Return a record whose parts all say which one it is."""
    mark = f"{who}{number}"
    return ModelRecord(
        id="model",
        name=mark,
        file="model.gguf",
        size=number,
        licence=mark * 10,
        stamp=FileStamp(number, number),
        wrong=mark * 30,
    )


def main() -> None:
    folder, who, times, removing = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    store = FolderModelStore(folder, {})
    print("begun", flush=True)
    for number in range(1, times + 1):
        record = record_of(number, who)
        held = store.save(record)
        assert held.record == record
        if removing and number % 3 == 0:
            try:
                held.path.write_bytes(b"GGUF")
                store.remove("model")
                for path in store.orphans():
                    store.discard(path)
            except (ConfigError, FileNotFoundError):
                pass  # the other one has been quicker


if __name__ == "__main__":
    main()
