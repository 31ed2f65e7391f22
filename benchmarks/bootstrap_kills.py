"""`kill -9` of `hfxling bootstrap` without a known pair at random moments: what comes out is byte-identical.

python benchmarks/bootstrap_kills.py --data ../shared/data

Heaps of --pairs pairs of NTREX, Chinese and Vietnamese, shuffled, and a third as many other lines on either side. The
encoder is a stand-in that knows both languages: static vectors of links of all of NTREX. Each of --kills runs is ended
at a moment drawn evenly from the time of a run that is not stopped (one that has ended by then is drawn anew), with an
empty cache of vectors, and started again. Figures: kills, of how many every file of the output folder was the same
bytes, and how often anything else stood under its name.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
import chaos_runs
from harness import machine, parser, report
from ntrex import LINES, read_text

from hfxling import fit_lexical, save_lexical
from hfxling.console import run as run_recipe
from hfxling.files import content_hash, files_of

TITLE = "hfxling bootstrap without a known pair, killed at random moments"
GOALS = {"bit_equal": "= kills", "half_written": "0"}
LANGUAGES = ("zh", "vi")


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "bootstrap_kills")
    options.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with ntrex/")
    options.add_argument("--pairs", type=int, default=150)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--seed", type=int, default=0, help="seed of the moments")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    chaos_runs.load_everything()
    text = read_text(args.data / "ntrex", "-".join(LANGUAGES))
    heaps = heaps_of(text, args.pairs)
    with tempfile.TemporaryDirectory() as folder:
        sides = [text[lang][:LINES] for lang in LANGUAGES]
        save_lexical(fit_lexical(*sides, LANGUAGES, progress=False), Path(folder, "knows"))
        figures = killed(args, heaps, Path(folder))
    settings = {"kills": args.kills, "seed": args.seed, "pairs": args.pairs, "text": content_hash(*heaps)}
    path = f"{args.results_dir}/bootstrap_kills.json"
    return report("bootstrap_kills", figures, settings | machine(), title=TITLE, path=path, goals=GOALS)


def heaps_of(text: dict[str, list[str]], pairs: int) -> list[list[str]]:
    """Pairs and other lines of both languages, shuffled."""
    alone = pairs // 3
    heaps = []
    for side, lang in enumerate(LANGUAGES):
        start = pairs + side * alone
        heap = text[lang][:pairs] + text[lang][start : start + alone]
        random.Random(side).shuffle(heap)
        heaps.append(heap)
    return heaps


def killed(args: argparse.Namespace, heaps: list[list[str]], folder: Path) -> dict:
    """Figures of all kills."""
    words = ["bootstrap"]
    for lang, heap in zip(LANGUAGES, heaps):
        (folder / lang).write_text("".join(f"{line}\n" for line in heap), encoding="utf-8")
        words.append(str(folder / lang))
    words += ["--source_lang", LANGUAGES[0], "--target_lang", LANGUAGES[1], "--model", str(folder / "knows")]
    words += ["--rounds", "1", "--cache_dir", "cache", "--output", "out"]
    whole = chaos_runs.run(words, folder / "whole", timeout=1200)
    print(f"a whole run takes {whole.seconds:.1f} s: {whole.out.strip()} {whole.err.strip()[-300:]}", flush=True)
    expected = contents(folder / "whole" / "out")
    rng = random.Random(args.seed)
    moments, runs = [], 0
    figures = {"kills": 0, "bit_equal": 0, "half_written": 0, "whole_s": round(whole.seconds, 1)}
    while figures["kills"] < args.kills:
        place = folder / f"run_{runs}"
        runs += 1
        place.mkdir()
        moment = rng.uniform(0.05, whole.seconds)
        pid = chaos_runs.start(words, place)
        time.sleep(moment)
        chaos_runs.kill(pid)
        if (place / "out").exists():
            figures["half_written"] += contents(place / "out") != expected
            shutil.rmtree(place)
            continue  # it had ended
        figures["kills"] += 1
        moments.append(moment)
        chaos_runs.run(words, place, timeout=1200)
        figures["bit_equal"] += contents(place / "out") == expected
        print(f"{figures['kills']} of {args.kills}, after {moment:.1f} s: {figures['bit_equal']} equal", flush=True)
        shutil.rmtree(place)
    return figures | {"runs": runs, "earliest_s": round(min(moments), 1), "latest_s": round(max(moments), 1)}


def contents(folder: Path) -> dict[str, bytes]:
    """Bytes by name of a folder's files."""
    return {name: (folder / name).read_bytes() for name in files_of(folder)}


if __name__ == "__main__":
    run_recipe(main)
