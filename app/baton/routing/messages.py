"""Messages between the scorer process and its parent."""

from __future__ import annotations

from pathlib import Path

from baton.core.routing_types import (
    Candidate,
    Draft,
    Estimate,
    Judgement,
    TextVector,
)
from baton.ipc.messages import FinalReply, Message

# Requests


class LoadRouter(Message, tag="load"):
    """Load the router in a folder."""

    folder: Path


class EstimateQuality(Message, tag="estimate"):
    """Estimate how well each candidate answers a prompt."""

    text: str
    candidates: list[Candidate]


class JudgeDrafts(Message, tag="judge"):
    """Judge drafts of an answer; `estimate` is what was expected before there were any."""

    text: str
    candidates: list[Candidate]
    drafts: list[Draft]
    estimate: Estimate | None


class CompareTexts(Message, tag="likeness"):
    """Compare each two texts by their meaning."""

    texts: list[str]


class EmbedText(Message, tag="embed"):
    """Return the vector of a whole text."""

    text: str


class ScoreTurns(Message, tag="turns"):
    """Score each worker in each role of the next turn; see core.planning.turn_roles."""

    text: str
    position: list[float]
    workers: list[list[float]]


REQUESTS = LoadRouter | EstimateQuality | JudgeDrafts | CompareTexts | EmbedText | ScoreTurns

# Replies


class RouterLoaded(Message, tag="loaded"):
    """What was loaded, and on what it runs: the name of an ONNX provider."""

    provider: str


class EstimateReply(FinalReply, tag="estimated"):
    """The answer to EstimateQuality."""

    value: Estimate


class JudgementReply(FinalReply, tag="judged"):
    """The answer to JudgeDrafts."""

    value: Judgement


class VectorReply(FinalReply, tag="vector"):
    """The answer to EmbedText."""

    value: TextVector


class TableReply(FinalReply, tag="table"):
    """The answer to CompareTexts and ScoreTurns: rows of numbers."""

    value: list[list[float]]


REPLIES = RouterLoaded | EstimateReply | JudgementReply | VectorReply | TableReply
