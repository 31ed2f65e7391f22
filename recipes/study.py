"""A study: one row a setting, the paper's figures beside ours.

python recipes/study.py --config recipes/configs/siamese/studies/layers.yaml --base_model ... [--key value ...]

The configuration's `study` entry holds name, title, method, seeds and rows; a row has a label, the keys it sets, the
paper's figures where there are any, and seeds of its own where it needs fewer. A `grid` makes a row of every choice of
one from each of its lists. All other keys are those of the method's recipe. Results go to `results_dir`
(outputs/studies); one that was stopped goes on.
"""

import sys

from hfxling.console import run
from hfxling.evaluation.results import EvalResult
from hfxling.methods.study import read_study, run_study


def main(argv: list[str] | None = None) -> list[EvalResult]:
    return run_study(read_study(list(sys.argv[1:] if argv is None else argv)))


if __name__ == "__main__":
    run(main)
