"""Plans as the conductor writes them, the other way round: parts as lines, and their grammar."""

from __future__ import annotations

from collections.abc import Sequence

from baton.core.plan_types import KINDS, MAX_DRAWN_STEPS
from baton.core.planning.plan_lines import MAX_TEXT_CHARS, TOOL_HEADS, PlanPart


def format_lines(parts: Sequence[PlanPart]) -> str:
    """Return parts as lines."""
    heads = {tool: head for head, tool in TOOL_HEADS.items()}
    return "\n".join(
        f"{heads.get(part.tool) or part.need.kind + str(part.need.difficulty)}: {part.text}"
        + (f" <- {', '.join(map(str, part.inputs))}" if part.inputs else "")
        for part in parts
    )


def plan_grammar(parts: int = MAX_DRAWN_STEPS) -> str:
    """Return the GBNF grammar of plans of up to so many parts, without forward references."""
    kinds = " | ".join(f'"{kind}"' for kind in KINDS)
    lines = [
        'root ::= head1 ": *" | line1 tail2',
        *(
            f'tail{n} ::= ("\\n" line{n}' + (f" tail{n + 1}" if n < parts else "") + ")?"
            for n in range(2, parts + 1)
        ),
        *(f'line{n} ::= head{n} ": " text{_inputs_rule(n)}' for n in range(1, parts + 1)),
        *(f"head{n} ::= tool | kind [1-5]" for n in range(1, parts + 1)),
        'tool ::= "calc" | "units" | "clock"',
        f"kind ::= {kinds}",
        rf"text ::= [^\x00-\x20\x7f*] [^\x00-\x1f\x7f]{{0,{MAX_TEXT_CHARS - 1}}}",
    ]
    return "\n".join(lines)


def _inputs_rule(number: int) -> str:
    if number == 1:
        return ""
    earlier = f"[1-{number - 1}]"
    return f' (" <- " {earlier} (", " {earlier})?)?'
