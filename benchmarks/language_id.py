"""Lines of a bitext that are in another language: our guard beside py3langid, lingua and heliport.

pip install -r benchmarks/requirements.txt; python benchmarks/language_id.py --data ../shared/data

A bitext is English with 454 lines of news (NTREX, 1544 to 1997) or 1,372 short everyday sentences (TALPCo), of which
every tenth is in another language than the file. There are ten such files of a text, so that every line is once wrong
and nine times right. Our guard learns from the file what its languages look like, and is not told which lines are
wrong; its limits were chosen on other lines. The others know their languages from elsewhere, and a line counts as
wrong where they name another language than the file's. One that is not installed, or has no such language, is left out.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy is imported

from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from harness import clock, machine, parser, report

from hfxling.console import run as run_recipe
from hfxling.data.faults import FaultFinder
from hfxling.data.readers import read_lines

NEWS = [("id", "ms"), ("id", "fil"), ("id", "en"), ("lo", "th"), ("lo", "zh"), ("th", "lo"), ("vi", "id"), ("vi", "en")]
NEWS += [("zh", "ja"), ("zh", "en"), ("es", "pt"), ("nl", "de")]
SHORT = [("id", "ms"), ("id", "jv"), ("id", "en"), ("vi", "id"), ("th", "en")]
PARTS = 10
HELIPORT = {"id": "ind", "lo": "lao", "th": "tha", "vi": "vie", "zh": "cmn", "es": "spa", "nl": "nld"}
Judge = Callable[[Sequence[str], Sequence[str], str], list[bool]]  # source, target, its language: lines that are wrong


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "language_id")
    options.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with ntrex/ and talpco/")
    args = options.parse_args(argv)
    judges = all_judges()
    figures: dict[str, dict[str, float]] = {}
    means = defaultdict(list)
    spent = defaultdict(lambda: [0, 0.0])
    for folder, pairs, first in (("ntrex", NEWS, 1543), ("talpco", SHORT, 0)):
        for language, other in pairs:
            texts = [lines(args.data / folder / f"{code}.txt")[first:] for code in ("en", language, other)]
            row = figures[f"{folder}, {language} with {other}"] = {}
            for name, judge in judges.items():
                before = clock()[0]
                counts = planted(judge, *texts, language)
                if counts is None:
                    continue
                spent[name][0] += PARTS * len(texts[0])
                spent[name][1] += clock()[0] - before
                found, missed, false = counts
                row[f"{name} f1"] = round(200 * found / (2 * found + missed + false), 1)
                row[f"{name} false_alarms"] = round(100 * false / ((PARTS - 1) * len(texts[0])), 2)
                means[name].append(row[f"{name} f1"])
            print(f"{folder}, {language} with {other}: {row}", flush=True)
    figures["mean f1"] = {name: round(sum(values) / len(values), 1) for name, values in means.items()}
    figures["languages"] = {name: len(values) for name, values in means.items()}
    figures["lines a CPU second"] = {name: round(count / seconds) for name, (count, seconds) in spent.items()}
    title = "Lines in another language than the file's, every tenth: F1 and false alarms in %"
    path = Path(args.results_dir) / "language_id.json"
    return report("language_id", figures, {"parts": PARTS, **machine()}, title=title, path=path)


def lines(path: Path) -> list[str]:
    """Of a text file; FileNotFoundError where there is none."""
    return [text for _, text in read_lines(str(path))]


def planted(
    judge: Judge, english: list[str], text: list[str], other: list[str], language: str
) -> tuple[int, int, int] | None:
    """Wrong lines that are found and missed, and right ones that are taken for wrong; None without the language."""
    found = missed = false = 0
    for part in range(PARTS):
        is_wrong = [number % PARTS == part for number in range(len(text))]
        mixed = [theirs if wrong else own for own, theirs, wrong in zip(text, other, is_wrong)]
        judged = judge(english, mixed, language)
        if judged is None:
            return None
        for wrong, flagged in zip(is_wrong, judged):
            found += wrong and flagged
            missed += wrong and not flagged
            false += flagged and not wrong
    return found, missed, false


def all_judges() -> dict[str, Judge | Callable]:
    """Ours, and those whose packages are installed."""
    judges = {"ours": ours}
    if find_spec("py3langid"):
        judges["py3langid"] = with_py3langid
    if find_spec("lingua"):
        judges["lingua"] = with_lingua()
    if find_spec("heliport"):
        judges["heliport"] = with_heliport()
    return judges


def ours(source: Sequence[str], target: Sequence[str], language: str) -> list[bool]:
    """By what the file itself looks like."""
    finder = FaultFinder.fit(zip(source, target), "en", language)
    return [finder.is_foreign(text) for text in target]


def with_py3langid(source: Sequence[str], target: Sequence[str], language: str) -> list[bool]:
    """By 97 languages' byte n-grams."""
    import py3langid

    return [py3langid.classify(text)[0] != language for text in target]


def with_lingua() -> Callable:
    """By letters and n-grams of 75 languages, Lao and Javanese not among them."""
    from lingua import Language, LanguageDetectorBuilder

    detector = LanguageDetectorBuilder.from_all_languages().build()
    known = {each.iso_code_639_1.name.lower() for each in Language.all()}

    def judge(source: Sequence[str], target: Sequence[str], language: str) -> list[bool] | None:
        if language not in known:
            return None
        named = map(detector.detect_language_of, target)
        return [one is None or one.iso_code_639_1.name.lower() != language for one in named]

    return judge


def with_heliport() -> Callable:
    """By character n-grams and words of 220 languages, as HeLI-OTS does it."""
    import heliport

    identifier = heliport.Identifier()

    def judge(source: Sequence[str], target: Sequence[str], language: str) -> list[bool]:
        return [str(identifier.identify(text)) != HELIPORT[language] for text in target]

    return judge


if __name__ == "__main__":
    run_recipe(main)
