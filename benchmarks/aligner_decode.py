"""Sentence pairs a CPU second that the word aligner links: one by one, and in the batches that it makes by itself.

python benchmarks/aligner_decode.py [--data ../shared/data/ntrex] [--pair lo-zh] [--pairs 200] [--size 500]

An untrained model, as its weights do not matter to its speed, with vocabularies of lines 1 to 1543 of the text; the
lines after them are linked, both ways by turns, and the links must be the same.
"""

import argparse
import json
import os
import platform
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import torch

from hfxling.alignment.aligner import Aligner
from hfxling.data.readers import read_lines
from hfxling.data.segment import learn_vocabularies
from hfxling.evaluation.results import format_table, write_results
from hfxling.training.aligner.arguments import AlignerArguments
from hfxling.training.aligner.train import new_model

LINES, REPEATS = 1543, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/ntrex", help="folder of line-aligned LANG.txt files")
    parser.add_argument("--pair", default="lo-zh")
    parser.add_argument("--pairs", type=int, default=200, help="sentence pairs to link")
    parser.add_argument("--size", type=int, default=500)
    parser.add_argument("--results_dir", default="results", help="where aligner_decode.json is written")
    args = parser.parse_args()
    torch.set_num_threads(1)
    languages = tuple(args.pair.split("-"))
    lines = {lang: [text for _, text in read_lines(f"{args.data}/{lang}.txt")] for lang in languages}
    vocabularies = learn_vocabularies({lang: text[:LINES] for lang, text in lines.items()})
    torch.manual_seed(0)
    settings = AlignerArguments(
        source_lang=languages[0], target_lang=languages[1], train_data=[args.data], size=args.size
    )
    aligner = Aligner(new_model(settings, vocabularies).eval(), vocabularies, languages, units="segments")
    text = [lines[lang][LINES : LINES + args.pairs] for lang in languages]
    seconds: dict[str, list[float]] = {"one by one": [], "in batches": []}
    links = {}
    for _ in range(REPEATS):
        for name, batch_size in (("one by one", 1), ("in batches", None)):
            start = time.process_time()
            links[name] = [line.links for line in aligner(*text, batch_size=batch_size)]
            seconds[name].append(time.process_time() - start)
    if links["one by one"] != links["in batches"]:
        raise RuntimeError("links depend on the batch.")
    figures = {f"pairs_per_cpu_s {name}": round(len(text[0]) / min(spent), 1) for name, spent in seconds.items()}
    figures["batches_over_one_by_one"] = round(min(seconds["one by one"]) / min(seconds["in batches"]), 2)
    about = vars(args) | {"repeats": REPEATS, "torch": torch.__version__, "threads": 1}
    about["machine"] = platform.processor() or platform.machine()
    extra = {"title": f"Linking {args.pair} sentences of NTREX, {args.size} units", "figures": figures}
    path = f"{args.results_dir}/aligner_decode.json"
    write_results(path, [], recipe="benchmarks/aligner_decode.py", settings=about, extra=extra)
    print(format_table(["figure", "value"], list(figures.items())))
    print(json.dumps({"name": "aligner_decode", "figures": figures, "settings": about}))


if __name__ == "__main__":
    main()
