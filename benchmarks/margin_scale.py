"""How far apart pairs are, against the margin: why the contrastive loss needs vectors of the right length.

python benchmarks/margin_scale.py --base_model ENCODER --layer 6 --pairs zh-vi \
    --train_data zh.txt+vi.txt@1-1543 --test_data zh.txt+vi.txt@1544-1997 [--name margin_scale]

Prints, for vectors as the encoder gives them and of unit length, the median distance of parallel and of non-parallel
training pairs, the distance between the languages' means, and the share of non-parallel pairs inside the margin: only
these have a gradient.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from harness import report

from hfxling.arguments import parse_arguments, resolved
from hfxling.console import run as run_recipe
from hfxling.methods.siamese.arguments import SiameseArguments
from hfxling.methods.siamese.data import labelled_pairs, prepare
from hfxling.models.losses import pair_distance


@dataclass
class Naming:
    """The results file."""

    name: str = field(default="margin_scale", metadata={"help": "name of the results file"})
    results_dir: str = field(default="results", metadata={"help": "folder in which NAME.json is written"})


def main(argv: list[str] | None = None) -> dict[str, float]:
    args, naming = parse_arguments((SiameseArguments, Naming), argv, description=__doc__)
    prepared = prepare([args])
    raw = [torch.from_numpy(np.array(x)) for x in prepared.of(args.layer_index, args.pooling).train]
    rows, targets, label = labelled_pairs(prepared.text.train["target"])
    figures = {}
    for scale, (source, target) in {"raw": raw, "unit": [torch.nn.functional.normalize(x) for x in raw]}.items():
        distance = pair_distance(source[rows], target[targets[:, 0]], args.distance).numpy()
        figures |= {
            f"{scale}_length": float(source.norm(dim=1).median()),
            f"{scale}_parallel": float(np.median(distance[label == 0])),
            f"{scale}_non_parallel": float(np.median(distance[label == 1])),
            f"{scale}_between_means": float((source.mean(0) - target.mean(0)).norm()),
            f"{scale}_inside_margin": float(np.mean(distance[label == 1] < args.margin)),
        }
    figures = {name: round(value, 4) for name, value in figures.items()}
    title = f"Distances of pairs in {args.base_model}, layer {args.layer}, against a margin of {args.margin}"
    path = f"{naming.results_dir}/{naming.name}.json"
    return report("margin_scale", figures, resolved(args), title=title, name=naming.name, path=path)


if __name__ == "__main__":
    run_recipe(main)
