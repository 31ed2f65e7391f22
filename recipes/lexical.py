"""The lexical model: sparse and static sentence vectors from the counts of a statistical aligner, in seconds.

python recipes/lexical.py --config recipes/configs/lexical/quickstart.yaml [--key value ...]
"""

from functools import partial

from hfxling.console import run
from hfxling.recipe import run_recipe

main = partial(run_recipe, "lexical", description=__doc__)

if __name__ == "__main__":
    run(main)
