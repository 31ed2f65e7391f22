"""How far apart pairs are, against the margin: why the contrastive loss needs vectors of the right length.

python benchmarks/margin_scale.py --base_model ENCODER --layer 6 --source_lang zh --target_lang vi \
    --train_data zh.txt vi.txt --train_lines 1-1543 --test_lines 1544-1997 [--name margin_scale]

Prints, for vectors as the encoder gives them and of unit length, the median distance of parallel and of non-parallel
training pairs, the distance between the languages' means, and the share of non-parallel pairs inside the margin: only
these have a gradient.
"""

import json
from dataclasses import dataclass, field

import numpy as np
import torch

from hfxling.arguments import parse_arguments, resolved, run_recipe
from hfxling.data.corpus import load_corpus
from hfxling.evaluation.results import format_table, write_results
from hfxling.models.losses import pair_distance
from hfxling.training.siamese.arguments import SiameseArguments
from hfxling.training.siamese.data import encode_corpus, labelled_pairs


@dataclass
class Naming:
    name: str = field(default="margin_scale", metadata={"help": "of the results file"})
    results_dir: str = field(default="results", metadata={"help": "where NAME.json is written"})


def main(argv: list[str] | None = None) -> dict[str, float]:
    args, naming = parse_arguments((SiameseArguments, Naming), argv, description=__doc__)
    corpus = load_corpus(args)
    (vectors,) = encode_corpus(args, corpus)
    raw = [torch.from_numpy(np.array(array)) for array in vectors.train]
    rows, targets, label = labelled_pairs(corpus.train["target"])
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
    settings = resolved(args)
    title = f"Distances of pairs in {args.base_model}, layer {args.layer}, against a margin of {args.margin}"
    extra = {"title": title, "figures": figures}
    path = f"{naming.results_dir}/{naming.name}.json"
    write_results(path, [], recipe="benchmarks/margin_scale.py", settings=settings, extra=extra)
    print(f"{title}\n\n{format_table(['figure', 'value'], list(figures.items()))}\n")
    print(json.dumps({"name": naming.name, "figures": figures, "settings": settings}, ensure_ascii=False))
    return figures


if __name__ == "__main__":
    run_recipe(main)
