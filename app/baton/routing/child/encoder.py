"""Turns a text into 384 numbers that say what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from baton.routing.child import RouterFileError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

WIDTH = 384
HEAD_CHARS, TAIL_CHARS = 2400, 1200
HEAD_TOKENS, TAIL_TOKENS = 144, 112
"""Of a long text its beginning and its end are read: the task stands in one of them."""

CPU = "CPUExecutionProvider"
Vectors = NDArray[np.float32]


def plain(text: str) -> str:
    """Return what of a text is read, as characters that every library takes."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    return text.encode("utf-8", "replace").decode("utf-8")


class Encoder:
    """A sentence encoder. Raises RouterFileError where its files are missing or broken."""

    def __init__(
        self, folder: Path, threads: int = 1, providers: Sequence[str] | None = None
    ) -> None:
        from tokenizers import Tokenizer

        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._tokenizer.no_padding()
            self._tokenizer.no_truncation()
            self._session = session(folder / "encoder.onnx", threads, providers)
        except Exception as error:  # both libraries raise bare exceptions of their own
            raise RouterFileError(f"{folder}: {error}") from error

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return a vector of length 1 for each text.

        One at a time: the integers' scale is taken over all that is computed at once, so that in
        a batch each would depend on the others.
        """
        found = np.zeros((len(texts), WIDTH), np.float32)
        for number, text in enumerate(texts):
            found[number] = self._vector(text)
        return found

    def _vector(self, text: str) -> Vectors:
        ids = self._tokenizer.encode(plain(text)).ids
        if len(ids) > HEAD_TOKENS + TAIL_TOKENS:
            ids = ids[:HEAD_TOKENS] + ids[-TAIL_TOKENS:]
        fed = np.array([ids], np.int64)
        (vector,) = self._session.run(
            ["embedding"], {"input_ids": fed, "attention_mask": np.ones_like(fed)}
        )
        return np.nan_to_num(np.asarray(vector[0], np.float32))


def session(file: Path, threads: int, providers: Sequence[str] | None) -> InferenceSession:
    """Load an ONNX file for what it shall run on: the processor, if nothing better is named."""
    import onnxruntime

    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    there = onnxruntime.get_available_providers()
    chosen = [name for name in providers or () if name in there and name != CPU]
    return onnxruntime.InferenceSession(str(file), options, providers=[*chosen, CPU])
