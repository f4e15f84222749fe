"""Counts, times, sizes and lists in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from baton.core.byte_format import show_size
from baton.core.messages import EMPTY_PAGE, NO_MEANING, Attachment, estimated_tokens
from baton.core.sanitiser import one_line


def join_words(words: Sequence[str]) -> str:
    """Join words as a sentence does: "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def count_text(number: int, noun: str) -> str:
    """Write how many there are: "1 model", "3 models"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration_text(seconds: float) -> str:
    """Write a time to wait: "40 s", "3 min", "1 h 20 min", "3 days"."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} days"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def ago_text(seconds: float) -> str:
    """Say how long ago something was: "just now", "2 min ago", "1 day ago", "3 months ago"."""
    for size, unit in ((365 * 86_400, "year"), (30 * 86_400, "month"), (86_400, "day")):
        if seconds >= size:
            return f"{count_text(int(seconds / size), unit)} ago"
    if seconds >= 3600:
        return f"{int(seconds / 3600)} h ago"
    return f"{int(seconds / 60)} min ago" if seconds >= 60 else "just now"


def percent_done(done: int, total: int) -> int:
    """Return how much is done, in whole percent: 100 only when it is all."""
    return 100 * done // total if total else 0


def files_text(files: Sequence[Attachment]) -> str:
    """Sum up many files: how many, their size and about how many tokens they take."""
    size, tokens = sum(f.size for f in files), sum(estimated_tokens(f.text) for f in files)
    return f"{count_text(len(files), 'file')} ({show_size(size)}, about {tokens:,} tokens)"


def file_text(file: Attachment) -> str:
    """Name a file with its size, about how many tokens it takes, and what its text lacks."""
    size = f"{show_size(file.size)}, about {estimated_tokens(file.text):,} tokens"
    lack = lack_text(file)
    return f"{one_line(file.name, 40)} ({size}){'; ' if lack else ''}{lack}"


def lack_text(file: Attachment) -> str:
    """Say which pages of a file have no text and how much of it can't be read, or return ""."""
    pages, glyphs = _EMPTY_PAGE.findall(file.text), file.text.count(NO_MEANING)
    shown = ", ".join([*pages[:5], *(["..."] if len(pages) > 5 else [])])
    parts = [
        f"{count_text(len(pages), 'page')} without text ({shown})" if pages else "",
        f"{count_text(glyphs, 'character')} that can't be read" if glyphs else "",
    ]
    return join_words([part for part in parts if part])


_EMPTY_PAGE = re.compile(f"^{re.escape(EMPTY_PAGE)}$".replace(r"\{\}", r"(\d+)"), re.MULTILINE)
