"""`python -m hfxling` is the `hfxling` command."""

from hfxling.cli import main

main()
