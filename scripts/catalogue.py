"""Checks models/catalogue.toml: whether it holds together, and whether a hub says the same.

    scripts/catalogue check          form, duplicates, arithmetic, licences, skills and scores
    scripts/catalogue check --hub    and sizes, hashes and revisions at the hub (HF_ENDPOINT)
    scripts/catalogue pin            fills in from the hub what an entry lacks

Skills follow from published scores by the rules below, and from nothing else: of several scores for
a kind of task the worst counts, and one that was reached by thinking first counts less, since Baton
doesn't think first unless asked to.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from baton.core.catalogue_types import FREE_LICENCES, ModelRole, ThinkingMode
from baton.models.catalogue import CatalogueModel, parse_models

FILE = Path(__file__).resolve().parents[1] / "models" / "catalogue.toml"

OTHER_LICENCES = frozenset({"gemma", "lfm1.0", "llama3.2"})
"""Licences that were read, and need the user's agreement."""

RULES: dict[str, tuple[tuple[str, float, float], ...]] = {
    # Level = start + slope * points. Where models of 2024 had such scores, this gives about what
    # core/planning/skill_estimates.py says of their size.
    "math": (
        ("GSM8K", 0.9, 0.022),
        ("GSM-Plus", 1.1, 0.022),
        ("MATH", 0.0, 0.04),
        ("MATH-500", 0.0, 0.04),
        ("AIME24", 1.7, 0.03),
        ("AIME25", 1.9, 0.03),
    ),
    "code": (
        ("LiveCodeBench", 2.0, 0.026),
        ("HumanEval", 0.5, 0.028),
        ("MBPP", 0.5, 0.028),
    ),
    "knowledge": (("MMLU-Pro", 0.7, 0.04), ("MMLU", -0.6, 0.047)),
    "reasoning": (("GPQA Diamond", 1.5, 0.03), ("MMLU-Pro", 0.7, 0.04)),
    "planning": (("decisions", -0.2, 0.04), ("decisions, balanced", -0.2, 0.04)),
}
THOUGHT, THINKING = ", thinking", 0.3
HIGHEST = 4.5
"""Nothing that runs at home is taken for better than this."""

CONTEXT, BATCH = 8192, 128
"""Tokens for which `kv_bytes` is exact, and how many are read at once."""

BITS = {"Q4_K_M": (4.3, 6.6), "Q4_0": (3.9, 5.6), "MXFP4": (3.9, 5.2), "Q8_0": (8.0, 9.5)}
"""Bits per parameter that a file of a kind may have; small models' words take more."""


def main() -> int:
    """Run what was asked for; ends with 1 when something is wrong."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("command", choices=("check", "pin"))
    options.add_argument("--hub", action="store_true", help="look at the hub too")
    options.add_argument("--file", type=Path, default=FILE, help="another catalogue")
    chosen = options.parse_args()
    try:
        found = parse_models(chosen.file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        print(f"{chosen.file}: {error}", file=sys.stderr)
        return 1
    wrong = list(problems(found))
    if chosen.command == "pin" or chosen.hub:
        sys.path.insert(0, str(Path(__file__).resolve().parent))
        from catalogue_hub import compare, pin

        wrong += pin(chosen.file, found) if chosen.command == "pin" else compare(found)
        found = parse_models(chosen.file.read_text("utf-8"))
    for line in wrong:
        print(line, file=sys.stderr)
    if not wrong:
        print(summary(found))
    return 1 if wrong else 0


def summary(found: Sequence[CatalogueModel]) -> str:
    """Say what the catalogue holds, and what it doesn't know."""
    free = sum((model.licence or "").lower() in FREE_LICENCES for model in found)
    lacks = {
        name: [model.id for model in found if not getattr(model, name)]
        for name in ("revision", "size", "sha256", "kv_bytes")
    }
    gaps = "; ".join(f"without {name}: {', '.join(ids)}" for name, ids in lacks.items() if ids)
    return f"{len(found)} models, {free} of them free. {gaps or 'Nothing is lacking'}."


def problems(found: Sequence[CatalogueModel]) -> Iterator[str]:
    """Yield a line for each contradiction."""
    yield from twice(found)
    for model in found:
        for what in (*basics(model), *arithmetic(model), *sources(model)):
            yield f"{model.id}: {what}"
    for role in ModelRole:
        if not any(role in model.roles and model.size and is_free(model) for model in found):
            yield f"no free model of known size is for {role}"


def twice(found: Sequence[CatalogueModel]) -> Iterator[str]:
    """Yield what is there twice; the reader itself refuses two of one id."""
    for name in ("name", "sha256"):
        seen: dict[str, str] = {}
        for model in found:
            value = str(getattr(model, name))
            if value and value in seen:
                yield f"{model.id}: has the same {name} as {seen[value]}"
            seen.setdefault(value, model.id)


def is_free(model: CatalogueModel) -> bool:
    """Whether a model needs no agreement."""
    return (model.licence or "").lower() in FREE_LICENCES


def basics(model: CatalogueModel) -> Iterator[str]:
    """Yield what is missing that any entry must have."""
    licence = model.licence or ""
    if licence not in FREE_LICENCES | OTHER_LICENCES:
        yield f"nobody has read the licence {licence!r}"
    if not model.roles:
        yield "it is for nothing"
    for name in ("parameters", "context", "note"):
        if not getattr(model, name):
            yield f"has no {name}"
    if not model.sha256 and model.revision:
        yield "has a revision, and no hash of what is there"


def arithmetic(model: CatalogueModel) -> Iterator[str]:
    """Yield which numbers can't all be true."""
    if model.attention and (together := per_token(model.attention)) != (model.kv_bytes or 0):
        yield f"its attention makes {together:,} bytes per token, not {model.kv_bytes or 0:,}"
    if model.size and model.parameters:
        bits = 8 * model.size / model.parameters
        kind = next((kind for kind in BITS if kind in model.file.upper()), None)
        if kind is None:
            yield f"nothing is known of how {model.file} is packed"
        elif not BITS[kind][0] <= bits <= BITS[kind][1]:
            yield f"{bits:.1f} bits per parameter are not {kind}"


def per_token(attention: Sequence[Sequence[int]]) -> int:
    """Return the bytes per token that layers keep of CONTEXT tokens, with numbers of 16 bits.

    Those with a window keep that and what is read at once; the values of all layers take as much
    room as those of the widest, as llama.cpp keeps them on a processor.
    """
    widest = max(heads * width for _, heads, width, *_ in attention)
    numbers = 0
    for layers, heads, width, *window in attention:
        kept = min(CONTEXT, -(-(window[0] + BATCH) // 256) * 256) if window else CONTEXT
        numbers += layers * kept * (heads * width + widest)
    return -(-2 * numbers // CONTEXT)


def sources(model: CatalogueModel) -> Iterator[str]:
    """Yield which skills don't follow from the scores that are there."""
    wanted = skills(model.scores)
    for kind in sorted({*wanted, *model.skills}):
        if model.skills.get(kind) != wanted.get(kind):
            yield f"its skill in {kind} must be {wanted.get(kind)}, not {model.skills.get(kind)}"
    thinks = any(name.endswith(THOUGHT) for name, _, _ in model.scores)
    if thinks and model.thinking is ThinkingMode.NONE:
        yield "has scores with thinking, and can't think"


def skills(scores: Iterable[tuple[str, float, str]]) -> dict[str, float]:
    """Return the skills that follow from scores."""
    found: dict[str, float] = {}
    for kind, rules in RULES.items():
        starts = {name: (start, slope) for name, start, slope in rules}
        levels = []
        for full, points, _ in scores:
            thought = THINKING if full.endswith(THOUGHT) else 0.0
            if (line := starts.get(full.removesuffix(THOUGHT))) is not None:
                levels.append(line[0] + line[1] * points - thought)
        if levels:
            found[kind] = round(min(HIGHEST, max(1.0, min(levels))), 1)
    return found


if __name__ == "__main__":
    sys.exit(main())
