"""Contrastive BiLSTM word aligner (Zhang et al. 2024), trained from scratch on parallel text.

python recipes/aligner.py --config recipes/configs/aligner/quickstart.yaml [--key value ...]
"""

from functools import partial

from hfxling.console import run
from hfxling.recipe import run_recipe

main = partial(run_recipe, "aligner", description=__doc__)

if __name__ == "__main__":
    run(main)
