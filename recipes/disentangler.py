"""Meaning/language disentangler: a frozen encoder's sentence vectors split in two (Nonomura et al.).

python recipes/disentangler.py --config recipes/configs/disentangler/quickstart.yaml [--key value ...]
"""

from functools import partial

from hfxling.console import run
from hfxling.recipe import run_recipe

main = partial(run_recipe, "disentangler", description=__doc__)

if __name__ == "__main__":
    run(main)
