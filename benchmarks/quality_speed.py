"""Seconds that the faults of one pair take by the length of its line, in Thai, Chinese and English.

python benchmarks/quality_speed.py --data_dir ../shared/data [--sizes 1000 10000 100000 512000]

A line is NTREX text of the language run together, as often as it takes, every time in another order; its source is the
same of English, or for English of Chinese. The finder is the one that knows what holds for any file.
"""

import random
from pathlib import Path

from harness import machine, parser, report, timed

from hfxling.console import run as run_recipe
from hfxling.data.faults import FaultFinder
from hfxling.data.readers import read_lines

LANGUAGES = ("th", "zh", "en")


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "quality_speed")
    options.add_argument("--data_dir", type=Path, default=Path("../shared/data"), help="folder with ntrex/")
    options.add_argument(
        "--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000, 512_000], help="numbers of characters"
    )
    args = options.parse_args(argv)
    texts = {lang: lines(args.data_dir / "ntrex" / f"{lang}.txt") for lang in LANGUAGES}
    figures: dict[str, dict[str, float]] = {}
    for lang in LANGUAGES:
        source = "zh" if lang == "en" else "en"
        finder = FaultFinder(source, lang)
        finder.flags(run_together(texts[source], 500), run_together(texts[lang], 500))  # warm-up
        for size in args.sizes:
            sides = [run_together(texts[side], size) for side in (source, lang)]
            figures.setdefault(lang, {})[f"seconds_{size}"] = round(float(timed(finder.flags, *sides)[0]), 4)
    title = "CPU seconds of the guard by the characters of one line"
    settings = {"sizes": args.sizes, **machine()}
    return report("quality_speed", figures, settings, title=title, path=Path(args.results_dir) / "quality_speed.json")


def lines(path: Path) -> list[str]:
    """Of a text file; FileNotFoundError where there is none."""
    return [text for _, text in read_lines(str(path))]


def run_together(texts: list[str], size: int) -> str:
    """A line of so many characters."""
    rng, parts = random.Random(0), []
    while sum(map(len, parts)) < size:
        parts += rng.sample(texts, len(texts))
    return " ".join(parts)[:size]


if __name__ == "__main__":
    run_recipe(main)
