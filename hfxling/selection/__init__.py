"""What can be made of sentence pairs competes; the winner is written.

candidates.py: what competes, fold by fold on pairs that were left out.
select.py: the verb `select`, which is the command `hfxling fit`.
"""
