"""Whether the languages of frozen vectors overlap more with a head: the language of a sentence's neighbours (Fig. 7).

python benchmarks/language_overlap.py --data ../shared/data --encoder me5-small [--layers 7 12] [--seeds 0 1 2]

The paper shows pictures of the vectors of both languages before and after training. Here every test sentence counts how
many of its ten nearest neighbours among the test sentences of both languages are in its own language: all where the
languages lie apart, half where they are mixed. Its translation is among the sentences, so that somewhat
less than half can be had. Vectors as they are and less their language's training mean; the heads are the contrastive
one at the settings of recipes/configs/siamese/studies/me5.yaml and the closed form. Zh-vi, lines 1 to 1543 of NTREX are
learnt from, 1544 to 1997 are the test. A row carries the paired test against the vectors as they are, sentence by
sentence.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from encoders import encoder_folder, weights_note
from harness import parser, report_rows
from ntrex import LINES
from transformers import TrainingArguments
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.retrieval import language_mean, postprocess
from hfxling.files import content_hash
from hfxling.methods.frozen import PairVectors
from hfxling.methods.siamese.arguments import TRAINING_DEFAULTS, HeadSettings, SiameseArguments
from hfxling.methods.siamese.data import prepare
from hfxling.methods.siamese.train import fit, plain_output
from hfxling.sentences.neighbours import unit

TITLE = "Neighbours in the same language among the ten nearest, zh-vi"
METRIC = "neighbours in the same language"
NEIGHBOURS = 10
PAIR = ("zh", "vi")
AS_IT_IS, CENTRED = "as they are", "centred"
FITS = ("contrastive", "discriminant")
LEARNING_RATE, EPOCHS = 1e-4, 30  # of the contrastive head


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "language_overlap_me5")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/")
    options.add_argument("--encoder", default="me5-small", help="encoder: me5-small, or a folder or Hub id")
    options.add_argument("--layers", nargs="+", default=["7", "12"], help="layers whose mean is the sentence's vector")
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds of the contrastive head")
    options.add_argument("--name", default="language_overlap_me5", help="name of the results file")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    settings = vars(args) | {"weights": weights_note(args.encoder)}
    lines = f"{args.data}/ntrex/zh.txt+{args.data}/ntrex/vi.txt"
    recipe = {
        "base_model": encoder_folder(args.encoder),
        "pairs": ["-".join(PAIR)],
        "train_data": [f"{lines}@1-{LINES}"],
        "test_data": [f"{lines}@{LINES + 1}-1997"],
    }
    prepared = prepare([SiameseArguments(layer=layer, **recipe) for layer in args.layers])
    test = prepared.text.test
    fields = {"dataset": "zh-vi", "split": "test", "revision": content_hash(test["source"], test["target"])}
    results = []
    for layer in args.layers:
        vectors = prepared.of(int(layer), "mean")
        before = same_language(vectors.test)
        centred = [postprocess(test, language_mean(train)) for train, test in zip(vectors.train, vectors.test)]
        systems = [(AS_IT_IS, 0, before), (CENTRED, 0, same_language(centred))]
        for kind in FITS:
            for seed in args.seeds if kind == "contrastive" else [0]:
                systems.append((kind, seed, same_language(mapped(vectors, prepared.text.train["target"], kind, seed))))
        for label, seed, shares in systems:
            about = {"stage": "after", "row": f"layer {layer}, {label}", "layer": int(layer)}
            baseline = None if label == AS_IT_IS else before
            results.append(mean_result(METRIC, shares, baseline=baseline, settings=about, seed=seed, **fields))
    labels = list(dict.fromkeys(row.settings["row"] for row in results))
    return report_rows("language_overlap", results, settings, title=TITLE, labels=labels, metrics=[METRIC])


def same_language(sides: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """(2 N,) per cent of the nearest neighbours by cosine that are of the sentence's own language."""
    vectors = unit(np.concatenate(sides))
    language = np.repeat([0, 1], [len(side) for side in sides])
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)  # a sentence is no neighbour of its own
    nearest = np.argsort(-scores, axis=1, kind="stable")[:, :NEIGHBOURS]
    return 100 * (language[nearest] == language[:, None]).mean(1)


def mapped(vectors: PairVectors, translations: list[str], kind: str, seed: int) -> list[np.ndarray]:
    """Test vectors by a head of the training vectors."""
    settings = HeadSettings(fit=kind)
    schedule = TRAINING_DEFAULTS | {"learning_rate": LEARNING_RATE, "num_train_epochs": EPOCHS}
    training_args = TrainingArguments(**schedule, seed=seed, use_cpu=True, disable_tqdm=True)
    head, _ = fit(vectors, translations, settings, training_args)
    return [plain_output(head, side, language) for side, language in zip(vectors.test, PAIR)]


if __name__ == "__main__":
    run_recipe(main)
