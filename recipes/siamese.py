"""Siamese linear head on a frozen encoder layer ("mBERT-SF"; Huang et al. 2023).

python recipes/siamese.py --config recipes/configs/siamese/quickstart.yaml [--key value ...]
"""

from functools import partial

from hfxling.console import run
from hfxling.recipe import run_recipe

main = partial(run_recipe, "siamese", description=__doc__)

if __name__ == "__main__":
    run(main)
