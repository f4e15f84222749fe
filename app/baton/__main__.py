"""`python -m baton`."""

from baton.cli import main

main()
