"""What 70 epochs of head training cost when frozen vectors are cached, against running the encoder in every epoch.

python benchmarks/frozen_features.py [--sentences 128] [--repeats 3] [--bfloat16 auto]

The encoder has mBERT's size and random weights, the sentences are random words of realistic lengths. Three things are
timed in one process on one thread: the naive pass (12 layers, batches of 64 as they come, padded), the pass of
`FrozenEncoder` (the layers that are needed, sorted by length) and all 70 epochs of the head. Whole runs follow from the
encoders' rates: naive = 70 x 8,064 sentences, ours = 4,032 distinct sentences once + the head. A sample of 128 sorted
sentences holds about a fifth more padding than all 4,032 do: the extrapolation overstates our pass by as much.
"""

import contextlib
import os
import statistics
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from harness import bfloat16_speed, machine, parser, report, timed
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from tqdm.auto import tqdm
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, TrainingArguments, logging

from hfxling.console import run as run_recipe
from hfxling.encoders.frozen import FrozenEncoder
from hfxling.evaluation.results import format_table
from hfxling.methods.frozen import PairVectors
from hfxling.methods.siamese.arguments import TRAINING_DEFAULTS, HeadSettings
from hfxling.methods.siamese.train import fit
from hfxling.models.pooling import pool
from hfxling.progress import hide_loading_bars

EPOCHS = TRAINING_DEFAULTS["num_train_epochs"]
PAIRS = 4032  # labelled: 2,016 parallel and as many non-parallel (Huang et al. 2023)
DISTINCT = 4032  # sentences in the 2,016 parallel pairs; the non-parallel ones use them again
PASSES = EPOCHS * 2 * PAIRS  # of the naive run: both sides of every labelled pair, in every epoch
VOCABULARY = 119547  # mBERT's
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
GOALS = {"ratio_fp32": ">= 180", "ratio_bf16": ">= 500", "head_over_encoder": "< 0.01"}


def draw_texts(count: int, seed: int = 0) -> list[str]:
    """Texts whose lengths are evenly spaced quantiles of the 4,032 that are drawn, in random order.

    Lengths in tokens, special ones included: a gamma distribution of mean 30 and standard deviation 15, within 5..100.
    News text (NTREX-128, zh and vi) spreads by 0.48 of its mean, everyday text by 0.8.
    """
    rng = np.random.default_rng(seed)
    lengths = np.sort(np.clip(np.rint(rng.gamma(4.0, 7.5, DISTINCT)), 5, 100).astype(int))
    chosen = rng.permutation(lengths[np.linspace(0, DISTINCT - 1, count).astype(int)])
    words = rng.integers(len(SPECIALS), VOCABULARY, (count, 98))
    return [" ".join(f"w{word}" for word in row[: length - 2]) for row, length in zip(words, chosen)]


def write_encoder(folder: str) -> None:
    """An encoder of mBERT's size with random weights, and a tokenizer that knows as many words."""
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=VOCABULARY)).save_pretrained(folder)
    words = SPECIALS + [f"w{i}" for i in range(len(SPECIALS), VOCABULARY)]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)


@torch.no_grad()
def naive_pass(encoder: FrozenEncoder, texts: list[str], batch_size: int = 64) -> None:
    """The texts through the whole encoder in the order in which they come, as a training loop would."""
    for start in range(0, len(texts), batch_size):
        batch = encoder.tokenizer(texts[start : start + batch_size], padding=True, return_tensors="pt")
        inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
        pool(encoder.model(**inputs).last_hidden_state, batch["attention_mask"])


def fit_head(epochs: int) -> None:
    """`fit` as the paper trains it, on vectors of mBERT's width: 4,032 labelled pairs, batches of 64."""
    rng = np.random.default_rng(0)
    source = rng.standard_normal((PAIRS // 2, 768), np.float32)
    target = source + rng.standard_normal((PAIRS // 2, 768), np.float32)
    vectors = PairVectors(("zh", "vi"), (source, target), (source, target))
    texts = [str(i) for i in range(PAIRS // 2)]
    head = HeadSettings(fit="contrastive", negatives="random")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        settings = TRAINING_DEFAULTS | {"num_train_epochs": epochs, "learning_rate": 5e-6, "output_dir": folder}
        fit(vectors, texts, head, TrainingArguments(**settings, use_cpu=True, disable_tqdm=True))


def sentence_rates(texts: list[str], repeats: int, bfloat16_texts: int) -> dict[str, np.ndarray]:
    """Sentences per (CPU, wall) second of every way to encode: interleaved, after a warm-up, medians of the repeats.

    bfloat16 is timed on the first `bfloat16_texts` of the texts, not at all for 0.
    """
    hide_loading_bars()
    with tempfile.TemporaryDirectory() as folder:
        write_encoder(folder)
        encoders = {
            f"{layer}{suffix}": FrozenEncoder(folder, [(layer, "mean")], dtype=dtype, device="cpu")
            for suffix, dtype in (("", "float32"), ("_bf16", "bfloat16"))[: 1 + (bfloat16_texts > 0)]
            for layer in (7, 12)
        }
    rng = np.random.default_rng(0)
    naive_pass(encoders["12"], texts[:8])
    for encoder in encoders.values():
        encoder(texts[:2])
    seconds: dict[str, list] = {name: [] for name in ("naive", *encoders)}
    for _ in tqdm(range(repeats), desc="encode"):
        shuffled = [texts[i] for i in rng.permutation(len(texts))]  # the padding depends on which texts meet
        seconds["naive"].append(timed(naive_pass, encoders["12"], shuffled))
        for name, encoder in encoders.items():
            seconds[name].append(timed(encoder, texts[:bfloat16_texts] if "bf16" in name else shuffled))
    counts = {name: bfloat16_texts if "bf16" in name else len(texts) for name in seconds}
    return {name: counts[name] / np.median(runs, axis=0) for name, runs in seconds.items()}


def whole_runs(rates: dict[str, np.ndarray], head: np.ndarray) -> dict[str, float | None]:
    """Print the table of CPU and wall seconds; the figures, in CPU seconds."""
    whole = {"naive": PASSES / rates["naive"], "7": DISTINCT / rates["7"] + head}
    if "7_bf16" in rates:
        whole["7_bf16"] = DISTINCT / rates["7_bf16"] + head
    labels = {
        "naive": "12 layers, as they come, float32, every epoch",
        "7": "7 layers, sorted, float32, once",
        "12": "12 layers, sorted, float32, once",
        "7_bf16": "7 layers, sorted, bfloat16, once",
        "12_bf16": "12 layers, sorted, bfloat16, once",
    }
    header = [
        "",
        *(f"{what} {kind}" for what in ("sentences/s", "whole run s", "naive / this") for kind in ("CPU", "wall")),
    ]
    rows = []
    for name, rate in rates.items():
        run = [*whole[name], *(whole["naive"] / whole[name])] if name in whole else [None] * 4
        rows.append([labels[name], *rate, *run])
    rows.append([f"the head, {EPOCHS} epochs (part of each run above)", None, None, *head, None, None])
    print(f"\n{format_table(header, rows)}")
    figures = {
        "ratio_fp32": (whole["naive"] / whole["7"])[0],
        "ratio_bf16": (whole["naive"] / whole["7_bf16"])[0] if "7_bf16" in whole else None,
        "head_over_encoder": (head / (PASSES / rates["7"]))[0],
        "head_cpu_s": head[0],
        "naive_cpu_s": whole["naive"][0],
        "cached_cpu_s": whole["7"][0],
        **{f"encode_sentences_per_cpu_s_{name}": cpu for name, (cpu, _) in rates.items()},
    }
    return {name: value and float(f"{value:.4g}") for name, value in figures.items()}


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__)
    options.add_argument("--sentences", type=int, default=128, help="number of sentences that are timed (default 128)")
    options.add_argument(
        "--repeats", type=int, default=3, help="number of interleaved repeats; medians are reported (default 3)"
    )
    options.add_argument(
        "--bfloat16",
        choices=("auto", "yes", "no"),
        default="auto",
        help="auto: on an eighth of the sample where the CPU only emulates bfloat16 (there it takes many minutes)",
    )
    args = options.parse_args(argv)
    if not 8 <= args.sentences <= DISTINCT or args.repeats < 1:
        options.error(f"give 8 to {DISTINCT} sentences and at least one repeat.")
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    texts = draw_texts(args.sentences)
    speed = bfloat16_speed()
    part = 8 if args.bfloat16 == "auto" and speed < 1 else 1
    bfloat16_texts = 0 if args.bfloat16 == "no" else max(8, len(texts) // part)
    rates = sentence_rates(texts, args.repeats, bfloat16_texts)
    fit_head(1)  # warm-up
    head = timed(fit_head, EPOCHS)
    settings = {
        "encoder": f"BertConfig, 12 layers of 768, vocabulary {VOCABULARY}, random weights",
        "pairs": PAIRS,
        "distinct_sentences": DISTINCT,
        "epochs": EPOCHS,
        "sample": args.sentences,
        "bf16_sample": bfloat16_texts,
        "repeats": args.repeats,
        "mean_tokens": round(statistics.mean(len(text.split()) + 2 for text in texts), 1),
        "extrapolation": "encoder times grow linearly with the number of sentences; the head is trained in full",
        "head_over_encoder": "against as many passes of the 7 sorted float32 layers as the naive run makes",
        "bf16_over_fp32_product": round(speed, 2),
    } | machine()
    figures = whole_runs(rates, head)
    if speed < 1:
        print(f"This processor only emulates bfloat16: a product runs at {speed:.2f} of float32's speed.")
    return report("frozen_features", figures, settings, goals=GOALS)


if __name__ == "__main__":
    run_recipe(main)
