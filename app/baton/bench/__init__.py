"""Questions with known answers: strategies compared on them, live and replayed."""
