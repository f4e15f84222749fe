"""Plans, answers, money and models in words, shared by every front end: plain strings and rows."""
