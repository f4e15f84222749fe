"""Which steps a request becomes and who does each: conductors, templates, assignment, skills.

The constants of `request_parts` and `plan_lines` are fitted with the trained conductor: after a
change run `scripts/score_conductor`.
"""
