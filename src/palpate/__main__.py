"""`python -m palpate` is `palpate`."""

from palpate.cli import main

main()
