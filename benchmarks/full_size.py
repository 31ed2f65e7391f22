"""The papers' configurations, started at full size: memory, seconds a step, and how long the whole would take.

python benchmarks/full_size.py --data ../shared/data [--tokenizer ../shared/models/mini-labse] [--only NAME ...]

Eight configurations of recipes/configs run through their recipes, each on an encoder of its architecture and size with
random weights (none can be downloaded here) and with a small tokenizer, which decides how many pieces
the text has: sentences of NTREX, cut at the 32 tokens of the paper where DAP is trained. A run of 2 steps and one of
22 differ by 20 steps; of a frozen encoder, runs on 40 and 240 pairs differ by the encoding of 200. Peak memory is that
of the longer run. `cpu_hours` are for the paper's amount of text at this speed, on one core. Operations (6 per
parameter and token of a training step, 2 of encoding; embeddings are looked up, not multiplied; DAP's head is left
out) say what another machine would need: `gpu_hours` is for one that sustains 100 TFLOP/s. What an earlier run has
measured stays beside what --only names.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import torch
from harness import earlier_file, machine, parser, report
from transformers import (
    BertConfig,
    BertModel,
    MT5Config,
    MT5EncoderModel,
    XLMConfig,
    XLMModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from hfxling.console import run as run_recipe

ROOT = Path(__file__).resolve().parents[1]
STEPS = (2, 22)  # of a trained encoder
BATCH = 16  # pairs of such a step
PAIRS = (40, 240)  # that a frozen encoder reads
TOKENS = 32  # of a sentence
GPU = 100e12  # operations a second
TRAINED_PAIRS = 100_000 * 1024  # Li et al. 2023, section 4.2: steps, batch
SIAMESE_SENTENCES = 2 * (2016 + 448)  # Huang et al. 2023, section 4.1
QE_SENTENCES = 2 * (2 * 1_000_000 + 2 * 200_000 + 2 * 50_000)  # Nonomura et al., Table 1


def xlmr(size: str) -> torch.nn.Module:
    """XLM-R base or large."""
    shape = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
    config = XLMRobertaConfig(
        vocab_size=250_002, max_position_embeddings=514, type_vocab_size=1, **(shape if size == "large" else {})
    )
    return XLMRobertaModel(config)


def mt5() -> torch.nn.Module:
    """The encoder of mT5-base."""
    return MT5EncoderModel(MT5Config(vocab_size=250_112, d_model=768, d_ff=2048, num_layers=12, num_heads=12))


def xlm() -> torch.nn.Module:
    """XLM with 100 languages."""
    return XLMModel(XLMConfig(vocab_size=200_000, emb_dim=1280, n_layers=16, n_heads=16))


@dataclass(frozen=True)
class FullSize:
    """A configuration, the encoder it is for, and how much text the paper reads.

    Attributes:
        config: under recipes/configs; its folder is the method's name.
        encoder: makes it.
        sentences: that are read in all; of a trained encoder those of all steps.
    """

    config: str
    encoder: Callable[[], torch.nn.Module]
    sentences: int

    @property
    def method(self) -> str:
        """Name of the method and of its recipe."""
        return self.config.split("/")[0]


ALL = {
    "mBERT+DAP": FullSize("dap/mbert", lambda: BertModel(BertConfig(vocab_size=119_547)), 2 * TRAINED_PAIRS),
    "XLM-R+DAP": FullSize("dap/xlmr", lambda: xlmr("base"), 2 * TRAINED_PAIRS),
    "mBERT-SF": FullSize("siamese/mbert_zh_vi", lambda: BertModel(BertConfig(vocab_size=119_547)), SIAMESE_SENTENCES),
    "XLM-SF": FullSize("siamese/xlm_zh_vi", xlm, SIAMESE_SENTENCES),
    "mT5-SF": FullSize("siamese/mt5_zh_vi", mt5, SIAMESE_SENTENCES),
    "XLM-R-SF": FullSize("siamese/xlmr_large_zh_vi", lambda: xlmr("large"), SIAMESE_SENTENCES),
    "LaBSE, meaning and language": FullSize(
        "disentangler/labse_qe", lambda: BertModel(BertConfig(vocab_size=501_153)), QE_SENTENCES
    ),
    "mE5-large, meaning and language": FullSize("disentangler/me5_qe", lambda: xlmr("large"), QE_SENTENCES),
}


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "full_size")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/")
    options.add_argument("--tokenizer", default="../shared/models/mini-labse", help="folder with a tokenizer")
    options.add_argument(
        "--only", nargs="+", choices=[*ALL], default=[*ALL], help="names of the configurations to start"
    )
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    path = Path(args.results_dir) / "full_size.json"
    figures = earlier_file(path).get("figures", {}) if len({*args.only}) < len(ALL) else {}
    for name in args.only:
        with tempfile.TemporaryDirectory() as folder:
            figures[name] = measured(ALL[name], Path(folder), args)
    figures = {name: figures[name] for name in ALL if name in figures}
    settings = {"pairs_a_step": BATCH, "tokens": TOKENS, "gpu_tflops": GPU / 1e12, "dtype": "float32"} | machine()
    return report("full_size", figures, settings, title="The papers' configurations at full size", path=path)


def measured(full: FullSize, folder: Path, args) -> dict[str, float]:
    """Two runs of a configuration, and what follows from their difference."""
    torch.manual_seed(0)
    encoder = full.encoder()
    layers = [p for name, p in encoder.named_parameters() if "embed" not in name and "shared" not in name]
    multiplied = sum(p.numel() for p in layers)
    encoder.save_pretrained(folder / "encoder")
    size = sum(p.numel() for p in encoder.parameters())
    del encoder, layers
    for path in Path(args.tokenizer).glob("tokenizer*"):
        shutil.copy(path, folder / "encoder")
    runs = [started(full, folder, run, args) for run in (0, 1)]
    seconds = runs[1][0] - runs[0][0]
    if full.method == "dap":
        sentences, operations = 2 * BATCH * (STEPS[1] - STEPS[0]), 6
    else:
        sentences, operations = 2 * (PAIRS[1] - PAIRS[0]), 2
    figures = {"parameters_m": round(size / 1e6), "peak_gib": round(runs[1][1], 1)}
    if full.method == "dap":
        figures["seconds_a_step"] = round(seconds / (STEPS[1] - STEPS[0]), 2)
    figures["sentences_per_cpu_s"] = round(sentences / seconds, 1)
    figures["cpu_hours"] = round(full.sentences * seconds / sentences / 3600, 1)
    operations *= multiplied * TOKENS * full.sentences
    figures["pflop"] = round(operations / 1e15, 2)
    figures["gpu_hours"] = round(operations / GPU / 3600, 4)
    return figures


def started(full: FullSize, folder: Path, run: int, args) -> tuple[float, float]:
    """CPU seconds and peak memory in GiB of the recipe, run for few (0) or more (1) steps or pairs."""
    pairs = PAIRS[run] if full.method != "dap" else STEPS[1] * BATCH
    words = {"base_model": folder / "encoder", "output_dir": folder / f"out{run}", "cache_dir": folder / f"cache{run}"}
    words["num_train_epochs"] = 1
    ntrex = f"{args.data}/ntrex"
    if full.method == "dap":
        text = f"{ntrex}/zh.txt+{ntrex}/en.txt@1-{pairs}"
        words |= {"pairs": "zh-en", "max_steps": STEPS[run], "per_device_train_batch_size": BATCH, "bf16": "false"}
        words |= {"max_train_pairs": pairs, "tatoeba": "", "save_strategy": "no"}
        words |= {"test_data": f"{ntrex}/zh.txt+{ntrex}/en.txt@1901-1910"}
        del words["cache_dir"], words["num_train_epochs"]
    else:
        pair = "zh-vi" if full.method == "siamese" else "en-de"
        sides = [f"{ntrex}/{lang}.txt" for lang in ("zh-vi" if full.method == "siamese" else "en-vi").split("-")]
        text = f"{'+'.join(sides)}@1-{pairs}"
        words |= {"pairs": pair, "test_data": f"{'+'.join(sides)}@1901-1910"}
        if full.method == "disentangler":
            words |= {"qe": ""}
    words["train_data"] = text
    config = ROOT / "recipes" / "configs" / f"{full.config}.yaml"
    command = [sys.executable, ROOT / "recipes" / f"{full.method}.py", "--config", config]
    command += [f"--{key}={value}" for key, value in words.items()]
    log = folder / f"log{run}"
    with log.open("w") as file:
        process = subprocess.Popen([str(word) for word in command], stdout=file, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{full.config}: the recipe failed.\n{log.read_text()[-2000:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024**2


if __name__ == "__main__":
    run_recipe(main)
