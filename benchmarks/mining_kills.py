"""`kill -9` of `hfxling mine` at random moments: what comes out in the end is byte-identical.

python benchmarks/mining_kills.py --data ../shared/data --encoder ../shared/models/mini-labse

NTREX lines 1 to 1500, shuffled on the other side, in tiles of 100 sentences each way. Vectors are kept from a run that
is not stopped, and its pairs are what others are held against. Each of --kills runs is ended at a moment drawn evenly
from that run's time (one that has ended by then is drawn anew), and started again. Figures: kills, of how many the
pairs were the same bytes, how often anything else stood under the final name, and the tiles that the runs found.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
import chaos_runs
from harness import machine, parser, report
from ntrex import read_text

from hfxling.console import run as run_recipe
from hfxling.files import content_hash

TITLE = "hfxling mine, killed at random moments"
LINES, TILE = 1500, 100
GOALS = {"bit_equal": "= kills", "half_written": "0"}


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "mining_kills")
    options.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with ntrex/")
    options.add_argument("--encoder", default="../shared/models/mini-labse", help="folder or Hub id of the encoder")
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--seed", type=int, default=0, help="seed of the moments")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    chaos_runs.load_everything()
    text = {lang: lines[:LINES] for lang, lines in read_text(args.data / "ntrex", "zh-vi").items()}
    random.Random(0).shuffle(text["vi"])
    with tempfile.TemporaryDirectory() as folder:
        figures = killed(args, text, Path(folder))
    settings = {"kills": args.kills, "seed": args.seed, "lines": LINES, "shard": TILE}
    settings |= {"text": content_hash(*text.values())}
    path = f"{args.results_dir}/mining_kills.json"
    return report("mining_kills", figures, settings | machine(), title=TITLE, path=path, goals=GOALS)


def killed(args: argparse.Namespace, text: dict[str, list[str]], folder: Path) -> dict:
    """Figures of all kills."""
    words = ["mine"]
    for lang, lines in text.items():
        (folder / lang).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        words.append(str(folder / lang))
    words += ["--source_lang", "zh", "--target_lang", "vi", "--model", str(Path(args.encoder).absolute())]
    words += ["--shard", str(TILE), "--cache_dir", str(folder / "cache"), "--output", "pairs.parquet"]
    chaos_runs.run(words, folder / "cached", timeout=1200)  # vectors stay in the cache
    whole = chaos_runs.run(words, folder / "whole", timeout=1200)
    print(f"a whole run takes {whole.seconds:.1f} s", flush=True)
    expected = (folder / "whole" / "pairs.parquet").read_bytes()
    rng, tiles, runs = random.Random(args.seed), [], 0
    figures = {"kills": 0, "bit_equal": 0, "half_written": 0, "whole_s": round(whole.seconds, 1)}
    while figures["kills"] < args.kills:
        place, runs = folder / f"run_{runs}", runs + 1
        place.mkdir()
        pid = chaos_runs.start(words, place)
        time.sleep(rng.uniform(0.05, whole.seconds))
        chaos_runs.kill(pid)
        if (output := place / "pairs.parquet").exists():
            figures["half_written"] += output.read_bytes() != expected
            if not (place / "pairs.parquet.hfxling-parts").exists():
                continue  # it had ended
        figures["kills"] += 1
        tiles.append(
            len([*place.glob("*.hfxling-parts/tile_*")])
            + (LINES // TILE) * len([*place.glob("*.hfxling-parts/forward_*")])
        )
        chaos_runs.run(words, place, timeout=1200)
        figures["bit_equal"] += output.read_bytes() == expected
        print(f"{figures['kills']} of {args.kills}: {tiles[-1]} of {(LINES // TILE) ** 2} tiles were there", flush=True)
    return figures | {"tiles_found_least": min(tiles), "tiles_found_most": max(tiles)}


if __name__ == "__main__":
    run_recipe(main)
