"""What `hfxling clean` and OpusFilter drop of a bitext with planted faults: the faulty pairs, and how many good ones.

python benchmarks/clean_faults.py --data ../shared/data/ntrex --encoder me5-small [--pairs zh-vi lo-zh]

NTREX lines 1 to 1543 in two halves. In each half 30 % of the pairs get a faulty target, 5 % of each kind:

- neighbour: the target of the next line. truncated: 30 to 60 % of it. copied: the source.
- wrong_language: the same line in another language of the same script (`SAME_SCRIPT`).
- babble: as many letters by a chain in which each letter hangs on the two before it, learnt from the targets.
- numbers: a number of two digits or more in the target is another one.

The second half is cleaned; what is fitted has learnt from the good pairs of the first one, and thresholds of scores are
those with the best F1 on the first half (what is fitted for that has learnt from the second one).

OpusFilter is a program of its own, found by --opusfilter (in an environment of its own: pip install opusfilter==3.3.1
eflomal jieba "py3langid<0.4"), left out where there is none. It scores both halves by all of its filters that need no
download, lengths in letters, word alignment with priors learnt from the other half's good pairs; a logistic regression
of all these scores is fitted to the first half's faults, and its threshold chosen there. That is more than its users
have: nobody else tells it which pairs are faulty. F1 is that of dropping faulty pairs.
"""

import json
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import random
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from encoders import encoder_folder, weights_note
from harness import machine, parser, report
from ntrex import LINES, read_text
from sklearn.linear_model import LogisticRegression
from transformers.utils import logging

import hfxling
from hfxling.console import run as run_recipe
from hfxling.evaluation.results import format_table
from hfxling.sentences.clean import Cleaned

TITLE = "Planted faults: what is dropped by hfxling clean and by OpusFilter"
KINDS = ("neighbour", "truncated", "copied", "wrong_language", "babble", "numbers")
SHARE = 0.05  # of the pairs, of each kind
SAME_SCRIPT = {"vi": "id", "id": "vi", "zh": "ja", "th": "lo", "lo": "th"}
SCRIPTS = {"vi": "Latin", "id": "Latin", "zh": "Han", "th": "Thai", "lo": "Lao"}
TOKENIZERS = {"zh": ["jieba", "zh"], "vi": ["moses", "vi"], "id": ["moses", "id"]}  # of its word alignment


class Half(NamedTuple):
    """A bitext of which some pairs are faulty."""

    source: list[str]
    target: list[str]
    kinds: list[str]  # of the fault, "" of a good pair
    good: tuple[list[str], list[str]]  # the pairs as they were


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "clean_faults")
    options.add_argument("--data", default="../shared/data/ntrex", help="folder with LANG.txt files")
    options.add_argument("--encoder", default="me5-small", help="encoder: me5-small, or a folder or Hub id")
    options.add_argument("--pairs", nargs="+", default=["zh-vi", "lo-zh"])
    options.add_argument("--opusfilter", help="folder of OpusFilter's programs; by default where the shell finds them")
    options.add_argument("--cache_dir", default="outputs/features", help="folder in which vectors are cached")
    options.add_argument("--seed", type=int, default=0, help="seed of the planted faults")
    args = options.parse_args(argv)
    logging.set_verbosity_error()
    figures = {}
    for pair in args.pairs:
        languages = tuple(pair.split("-"))
        first, second = halves(args.data, languages, args.seed)
        by_system = own_systems(first, second, languages, encoder_folder(args.encoder), args.cache_dir)
        by_system |= opusfilter_systems(first, second, languages, args.opusfilter)
        figures[pair] = {label: figures_of(is_kept, second.kinds) for label, is_kept in by_system.items()}
        header = ["dropped, %", "F1", "precision", "recall", *KINDS, "good"]
        print(pair, format_table(header, [[label, *row.values()] for label, row in figures[pair].items()]), flush=True)
    settings = {"encoder": args.encoder, "weights": weights_note(args.encoder), "seed": args.seed, **machine()}
    return report("clean_faults", figures, settings, title=TITLE, path=Path(args.results_dir) / "clean_faults.json")


# Faults --------------------------------------------------------------------------------------------


def halves(data: str, languages: tuple[str, str], seed: int) -> tuple[Half, Half]:
    """Both halves of the training lines, with faults."""
    text = read_text(data, "-".join(languages))
    other = Path(data, f"{SAME_SCRIPT[languages[1]]}.txt").read_text(encoding="utf-8").splitlines()
    middle = LINES // 2
    found = []
    for number, lines in enumerate((slice(0, middle), slice(middle, LINES))):
        source, target = (text[language][lines] for language in languages)
        found.append(planted(source, target, other[lines], random.Random(seed + number)))
    return tuple(found)


def planted(source: list[str], target: list[str], other: list[str], rng: random.Random) -> Half:
    """Pairs of which 5 % have a fault of each kind."""
    count = round(SHARE * len(target))
    free = [*range(len(target) - 1)]  # the last line has no neighbour
    rng.shuffle(free)
    with_number = [row for row in free if re.search(r"\d\d", target[row])]
    rows_of = {"numbers": with_number[:count]}
    rest = [row for row in free if row not in rows_of["numbers"]]
    for number, kind in enumerate(KINDS[:-1]):
        rows_of[kind] = rest[number * count : (number + 1) * count]
    faulty, kinds = [*target], [""] * len(target)
    chain = letters_after(target)
    for kind, rows in rows_of.items():
        for row in rows:
            kinds[row] = kind
            if kind == "neighbour":
                faulty[row] = target[row + 1]
            elif kind == "truncated":
                faulty[row] = target[row][: round(rng.uniform(0.3, 0.6) * len(target[row]))].strip()
            elif kind == "copied":
                faulty[row] = source[row]
            elif kind == "wrong_language":
                faulty[row] = other[row]
            elif kind == "babble":
                faulty[row] = babble(chain, len(target[row]), rng)
            else:
                faulty[row] = re.sub(r"\d\d+", lambda digits: other_number(digits[0], rng), target[row], count=1)
    return Half(source, faulty, kinds, (source, target))


def letters_after(texts: list[str]) -> dict[str, list[str]]:
    """What follows two letters."""
    after = defaultdict(list)
    for text in texts:
        padded = "  " + text
        for place in range(len(text)):
            after[padded[place : place + 2]].append(padded[place + 2])
    return after


def babble(after: dict[str, list[str]], length: int, rng: random.Random) -> str:
    """So many letters, each drawn by the two before it."""
    text = "  "
    while len(text) < length + 2:
        following = after.get(text[-2:]) or after["  "]
        text += rng.choice(following)
    return text.strip()


def other_number(digits: str, rng: random.Random) -> str:
    """A number of as many digits that is another one."""
    drawn = digits
    while drawn == digits:
        drawn = str(rng.randrange(10 ** (len(digits) - 1), 10 ** len(digits)))
    return drawn


# Systems -------------------------------------------------------------------------------------------


def own_systems(first: Half, second: Half, languages, encoder: str, cache_dir: str) -> dict[str, np.ndarray]:
    """Which pairs of the second half `hfxling clean` keeps, by what it is given."""
    bare = hfxling.clean(second.source, second.target, languages=languages)
    found = {"hfxling, no model": is_kept(bare)}
    with tempfile.TemporaryDirectory() as folder:
        given = {}
        for name, half in (("first", second), ("second", first)):  # what the other half teaches
            selection = hfxling.select(
                *half.good, languages=languages, model=encoder, only=["fused"], output=None, cache_dir=cache_dir
            )
            fused = selection.save(Path(folder, name, "fused"), "fused")
            given[name] = {
                "hfxling, words of the text": {"min_words_gain": -1e9},
                "hfxling, encoder": {"model": encoder},
                "hfxling, links": {"lexical": fused["lexical"]},
                "hfxling, fused": {"model": fused["folder"], "lexical": fused["lexical"], "trust_remote_code": True},
            }
        for label in given["first"]:
            scored = []
            for half, name in ((first, "first"), (second, "second")):
                options = given[name][label]
                scored.append(
                    hfxling.clean(half.source, half.target, languages=languages, cache_dir=cache_dir, **options)
                )
            column = "words" if "words" in scored[0].scores else "score"
            threshold = best_threshold(scored[0].scores[column], is_kept(scored[0]), np.array(first.kinds) != "")
            found[label] = is_kept(scored[1]) & ~(scored[1].scores[column] < threshold)
            print(label, "threshold", round(threshold, 3), flush=True)
    return found


def is_kept(cleaned: Cleaned) -> np.ndarray:
    """(N,) bool."""
    kept = np.zeros(len(cleaned.reasons), bool)
    kept[cleaned.kept] = True
    return kept


def best_threshold(scores: np.ndarray, kept: np.ndarray, is_faulty: np.ndarray) -> float:
    """The score below which pairs are dropped, beside those that are dropped anyway, with the best F1."""
    tried = np.unique(scores[~np.isnan(scores)])
    values = [f1(~kept | (scores < threshold), is_faulty)[0] for threshold in tried]
    return float(tried[int(np.argmax(values))])


def opusfilter_systems(
    first: Half, second: Half, languages: Sequence[str], programs: str | None
) -> dict[str, np.ndarray]:
    """Which pairs of the second half are kept by a regression of all scores of OpusFilter."""
    program = shutil.which("opusfilter", path=programs)
    if program is None:
        return {}
    learnt = opusfilter_scores(first, second.good, languages, program)
    scores = opusfilter_scores(second, first.good, languages, program)
    mean, scale = learnt.mean(0), np.maximum(learnt.std(0), 1e-9)
    is_faulty = np.array(first.kinds) != ""
    model = LogisticRegression(max_iter=5000).fit((learnt - mean) / scale, ~is_faulty)
    threshold = best_threshold(model.decision_function((learnt - mean) / scale), np.ones(len(learnt), bool), is_faulty)
    return {"OpusFilter, all scores": model.decision_function((scores - mean) / scale) >= threshold}


def opusfilter_scores(half: Half, known: Sequence[list[str]], languages: Sequence[str], program: str) -> np.ndarray:
    """(N, F) scores of all filters."""
    tokenizers = {
        f"{side}_tokenizer": TOKENIZERS[language]
        for side, language in zip(("src", "tgt"), languages)
        if language in TOKENIZERS
    }
    filters = [
        {"LengthFilter": {"unit": "char"}},
        {"LengthRatioFilter": {"unit": "char", "name": "letters"}},
        {"LengthRatioFilter": {"unit": "word", "name": "words"}},
        {"LongWordFilter": {}},
        {"AverageWordLengthFilter": {}},
        {"AlphabetRatioFilter": {}},
        {"CharacterScoreFilter": {"scripts": [SCRIPTS[language] for language in languages]}},
        {"LanguageIDFilter": {"languages": [*languages], "id_method": "langid"}},
        {"TerminalPunctuationFilter": {}},
        {"NonZeroNumeralsFilter": {}},
        {"LongestCommonSubstringFilter": {}},
        {"SimilarityFilter": {}},
        {"RepetitionFilter": {}},
        {"WordAlignFilter": {"priors": "priors", **tokenizers}},
    ]
    with tempfile.TemporaryDirectory() as folder:
        names = write_sides(folder, "text", (half.source, half.target))
        known_names = write_sides(folder, "known", known)
        priors = {"src_data": known_names[0], "tgt_data": known_names[1], "output": "priors", "parameters": tokenizers}
        scored = {"inputs": names, "output": "scores.jsonl", "filters": filters}
        steps = [{"type": "train_alignment", "parameters": priors}, {"type": "score", "parameters": scored}]
        config = {"common": {"output_directory": folder}, "steps": steps}
        Path(folder, "config.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
        subprocess.run([program, "config.yaml"], check=True, cwd=folder, capture_output=True)
        lines = Path(folder, "scores.jsonl").read_text(encoding="utf-8").splitlines()
    return np.array([numbers_of(json.loads(line)) for line in lines])


def write_sides(folder: str, name: str, sides: Sequence[list[str]]) -> list[str]:
    """Names of the files of both sides."""
    names = [f"{name}.source", f"{name}.target"]
    for file, side in zip(names, sides):
        Path(folder, file).write_text("\n".join(side) + "\n", encoding="utf-8")
    return names


def numbers_of(scores: object) -> list[float]:
    """All numbers in what OpusFilter writes of a pair, in order."""
    if isinstance(scores, dict | list):
        found = []
        for part in scores.values() if isinstance(scores, dict) else scores:
            found += numbers_of(part)
        return found
    return [float(scores)]


# What is counted -----------------------------------------------------------------------------------


def f1(is_dropped: np.ndarray, is_faulty: np.ndarray) -> tuple[float, float, float]:
    """F1, precision and recall of the pairs that are dropped, in %."""
    right = (is_dropped & is_faulty).sum()
    precision, recall = right / max(1, is_dropped.sum()), right / max(1, is_faulty.sum())
    return 200 * right / max(1, is_dropped.sum() + is_faulty.sum()), 100 * precision, 100 * recall


def figures_of(kept: np.ndarray, kinds: list[str]) -> dict[str, float]:
    """F1, precision, recall, and the share of each kind that is dropped, in %."""
    kinds = np.array(kinds)
    names = ("F1", "precision", "recall")
    row = {name: round(float(value), 1) for name, value in zip(names, f1(~kept, kinds != ""))}
    for kind in (*KINDS, ""):
        row[kind or "good"] = round(100 * float((~kept)[kinds == kind].mean()), 1)
    return row


if __name__ == "__main__":
    run_recipe(main)
