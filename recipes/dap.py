"""Dual-alignment pre-training: translation ranking and representation translation learning (Li et al. 2023).

accelerate launch recipes/dap.py --config recipes/configs/dap/quickstart.yaml [--key value ...]
"""

from functools import partial

from hfxling.console import run
from hfxling.recipe import run_recipe

main = partial(run_recipe, "dap", description=__doc__)

if __name__ == "__main__":
    run(main)
