"""How good an answer likely is, what no worker can know, and what is said beside an answer."""
