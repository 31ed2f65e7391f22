"""How many planted translation errors the finder flags, and how many good translations it flags wrongly.

python benchmarks/quality_faults.py --data_dir ../shared/data [--split test] [--seed 0] [--rows 50] [--show 10]

Every language pair is a file of its own: all rows of the split with 100 planted rows among them, a quarter each of the
kinds below, made from good rows. The finder is fitted on that file, errors and all, as hfxling quality fits it. With
--rows the file is so many rows and a tenth as many planted ones, and all 100 planted rows are judged by its finder.
Good rows are NTREX references and the MLQE rows whose mean human score is 70 or more.

- copy: the source as it is; the source in other case and punctuation; the first quarter translated and the rest copied.
- wrong_language: the source of another row; a sentence in a third language of the target's script; the same of any.
- truncated: cut between words, half of them breaking off with 20 to 80 % of the characters kept, half with the final
  mark put back after 20 to 50 %. Reported apart as hard_cuts: with the mark put back after 50 to 70 %.
- repeated: the last word, a phrase, one character, or the whole sentence again.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness import parser, report

from hfxling.console import run as run_recipe
from hfxling.data.faults import FaultFinder
from hfxling.data.readers import read_lines
from hfxling.evaluation.results import format_table

MLQE = ("en-de", "en-zh", "ro-en", "et-en", "ne-en", "si-en")
NTREX = ("zh-vi", "lo-zh", "th-zh", "id-zh")
REVERSED = ("vi-zh", "zh-lo", "zh-th", "zh-id")
KINDS = ("copy", "wrong_language", "truncated", "repeated")
GOOD = 70  # mean human score, of 100
PER_PAIR = 100  # planted rows
UNSPACED = ("zh", "th", "lo")
NOT_THIRD = {"my": "not Unicode", "zh-tw": "Chinese as well"}
SAME_SCRIPT = {"zh": ("ja",), "th": ("lo",), "lo": ("th",)}  # the nearest where no other language shares the script
LATIN = ("vi", "id", "ms", "fil", "fr", "de", "es", "tr", "ro", "et", "it", "nl", "pt", "pl", "sw", "en")
Row = tuple[str, str, bool]  # source, target, whether the translation is good


def main(argv: list[str] | None = None) -> dict[str, float]:
    options = parser(__doc__)
    options.add_argument("--data_dir", type=Path, default=Path("../shared/data"), help="folder with mlqe/ and ntrex/")
    options.add_argument(
        "--split", choices=("dev", "test"), default="test", help="split to test on; thresholds were chosen on dev"
    )
    options.add_argument("--seed", type=int, default=0, help="seed of the planted faults")
    options.add_argument("--rows", type=int, help="number of rows of each file; by default all of the split")
    options.add_argument(
        "--results", type=Path, help="JSON file to write the figures to, e.g. results/quality_faults.json"
    )
    options.add_argument(
        "--show", type=int, default=0, help="number of missed and wrongly flagged rows to print for each pair"
    )
    args = options.parse_args(argv)
    table, totals, by_kind, extra = [], Counter(), Counter(), Counter()
    for pair in MLQE + NTREX + REVERSED:
        found = measure_pair(args, pair)
        rates = [100 * found[kind] / (PER_PAIR // len(KINDS)) for kind in KINDS]
        flagged = sum(found[kind] for kind in KINDS)
        table.append(
            [pair, *rates, 100 * found["named"] / PER_PAIR, found["good"], 100 * found["wrong"] / max(found["good"], 1)]
        )
        (extra if pair in REVERSED else totals).update({"planted": PER_PAIR, "flagged": flagged, **found})
        if pair not in REVERSED:
            by_kind.update({kind: found[kind] for kind in KINDS})
    headers = ["pair", *(f"{kind} %" for kind in KINDS), "right name %", "good rows", "false alarms %"]
    print(format_table(headers, table))
    figures = {**shares(totals), **{f"reversed_{name}": value for name, value in shares(extra).items()}}
    figures |= {f"planted_{kind}": by_kind[kind] / (totals["planted"] / len(KINDS)) for kind in KINDS}
    figures = {name: round(value, 4) for name, value in figures.items()}
    settings = {"split": args.split, "seed": args.seed, "rows": args.rows, "good": f"NTREX, MLQE with mean >= {GOOD}"}
    if args.results:
        for pair, *rates, _, _, wrong in table:
            figures |= {f"{pair}_planted_flagged": sum(rates) / 400, f"{pair}_false_alarms": round(wrong / 100, 4)}
    title = "Planted translation errors flagged and good translations flagged, shares; see docs/quality.md"
    return report("quality_faults", figures, settings, title=title, path=args.results)


def shares(counts: Counter) -> dict[str, float]:
    """Planted rows flagged, with any flag and with the right one, and good rows flagged, 0 to 1."""
    return {
        "planted_flagged": counts["flagged"] / counts["planted"],
        "planted_named": counts["named"] / counts["planted"],
        "false_alarms": counts["wrong"] / counts["good"],
        "hard_cuts_flagged": counts["hard_cuts"] / counts["good"],
    }


def measure_pair(args: argparse.Namespace, pair: str) -> Counter:
    """Counts: flagged planted rows by kind, those with the right flag (named), good rows, those flagged (wrong)."""
    rng = random.Random(f"{args.seed} {pair}")
    rows = read_pair(args.data_dir, pair, args.split)
    planted = list(plant(args, pair, rows, rng))
    if args.rows:
        rows = rng.sample(rows, min(args.rows, len(rows)))
    spoiled = planted if not args.rows else rng.sample(planted, min(args.rows // 10, PER_PAIR))
    finder = FaultFinder.fit([row[:2] for row in (*rows, *spoiled)], *pair.split("-"))
    counts, shown = Counter(), Counter()
    space = "" if pair[-2:] in UNSPACED else " "
    for source, target, kind in planted:
        flags = finder.flags(source, target)
        counts[kind] += bool(flags)
        counts["named"] += kind in flags
        if not flags and (shown.update(["missed"]) or shown["missed"] <= args.show):
            print(f"missed {kind} {pair}: {source} | {target}")
    for source, target, good in rows:
        if good:
            flags = finder.flags(source, target)
            counts.update({"good": 1, "wrong": bool(flags)})
            hard = finder.flags(source, cut(target, space, rng.uniform(0.5, 0.7), mark=True))
            counts["hard_cuts"] += bool(hard)
            if flags and (shown.update(["wrong"]) or shown["wrong"] <= args.show):
                print(f"wrong {flags} {pair}: {source} | {target}")
    return counts


def read_pair(folder: Path, pair: str, split: str) -> list[Row]:
    """The rows of a split of a pair."""
    source_lang, target_lang = pair.split("-")
    if pair in MLQE:
        path = folder / "mlqe" / f"{pair}.{'dev' if split == 'dev' else 'test20'}.tsv"
        cells = (line.split("\t") for line in read(path)[1:])
        return [(source, target, float(mean) >= GOOD) for source, target, mean, _ in cells]
    sides = (ntrex(folder, lang, split) for lang in (source_lang, target_lang))
    return [(source, target, True) for source, target in zip(*sides)]


def ntrex(folder: Path, lang: str, split: str) -> list[str]:
    """454 lines of the training part, or the 454 lines of the test part."""
    lines = read(folder / "ntrex" / f"{lang}.txt")
    return lines[1089:1543] if split == "dev" else lines[1543:1997]


def read(path: Path) -> list[str]:
    """Lines of a file that may be compressed."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; give the measuring data's folder with --data_dir.")
    return [text for _, text in read_lines(str(path))]


def plant(args: argparse.Namespace, pair: str, rows: list[Row], rng: random.Random) -> Iterator[tuple[str, str, str]]:
    """Yield (source, bad target, kind), the kinds and their variants in turn, from good rows."""
    target_lang = pair.split("-")[1]
    space = "" if target_lang in UNSPACED else " "
    good = [row for row in rows if row[2]]
    good *= -(-PER_PAIR // len(good))
    for number, (source, target, _) in enumerate(rng.sample(good, PER_PAIR)):
        kind, variant = KINDS[number % len(KINDS)], number // len(KINDS)
        if kind == "copy":
            yield source, copied(source, target, space, variant, rng), kind
        elif kind == "wrong_language":
            yield source, foreign(args, pair, source, rows, variant, rng), kind
        elif kind == "truncated":
            mark = bool(variant % 2)
            yield source, cut(target, space, rng.uniform(0.2, 0.5 if mark else 0.8), mark), kind
        else:
            yield source, looped(target, space, variant, rng), kind


def copied(source: str, target: str, space: str, variant: int, rng: random.Random) -> str:
    """The source untranslated, in three ways."""
    if variant % 3 == 0:
        return source
    if variant % 3 == 1:
        return re.sub(r"[,.;:!?]", "", source).lower() + rng.choice(["", "!", " ..."])
    words, letters = source.split(), target.split() if space else list(target)
    if len(words) > 3:
        return (
            " ".join(letters[: len(letters) // 4] if space else ["".join(letters[: len(letters) // 4])])
            + " "
            + (" ".join(words[len(words) // 4 :]))
        )
    return "".join(letters[: len(letters) // 4]) + source[len(source) // 4 :]


def foreign(args: argparse.Namespace, pair: str, source: str, rows: list[Row], variant: int, rng: random.Random) -> str:
    """Text in another language than the target's."""
    source_lang, target_lang = pair.split("-")
    if variant % 3 == 0:
        return rng.choice([other for other, _, _ in rows if other != source])
    if variant % 3 == 1:
        near = SAME_SCRIPT.get(target_lang, LATIN)
    else:
        near = sorted(path.stem for path in (args.data_dir / "ntrex").glob("*.txt"))
    near = [lang for lang in near if lang not in (source_lang, target_lang, *NOT_THIRD)]
    return rng.choice(ntrex(args.data_dir, rng.choice(near), args.split))


def cut(target: str, space: str, kept: float, mark: bool) -> str:
    """That share of the characters, up to a word's end, with the final mark put back or without."""
    kept_text = target[: max(1, int(len(target) * kept))]
    if space and " " in kept_text:
        kept_text = kept_text.rsplit(" ", 1)[0]
    kept_text = kept_text.rstrip(" ,;:，、；：.。")
    return kept_text + (target[-1] if mark and not target[-1].isalnum() else "")


def looped(target: str, space: str, variant: int, rng: random.Random) -> str:
    """The last word, a phrase or a character again and again, or the whole sentence twice."""
    body, mark = (target[:-1], target[-1]) if not target[-1].isalnum() else (target, "")
    if variant % 4 == 3:
        return target + space + target
    if variant % 4 == 2:
        place = rng.choice([i for i, letter in enumerate(body) if letter.isalpha()])
        return body[:place] + body[place] * rng.randint(6, 20) + body[place:] + mark
    parts = body.split(" ") if space else re.findall(r"\w{1,2}\W*|\W+", body)
    size = 1 if variant % 4 == 0 else min(rng.randint(2, 5), len(parts))
    times = rng.randint(3, 8) if size == 1 else rng.randint(2, 4)
    end = len(parts) if size == 1 else rng.randint(size, len(parts))
    looped = parts[:end] + parts[end - size : end] * times + parts[end:]
    return space.join(looped) + mark


if __name__ == "__main__":
    run_recipe(main)
