"""What a request is: its words, kind and difficulty, and what it lacks. Nothing is called for it.

`task_kind`, `request_words` and `bare_expressions` are fitted: after a change to a word or a
constant run `scripts/score_conductor` and `scripts/bench_router`, whose figures rest on them.
"""
