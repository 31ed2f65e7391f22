"""Render every tracked page that shows numbers: model_cards/, docs/results.md and the tables in README.md.

python docs/render.py [--check]     # --check writes nothing and fails when a page is not up to date
"""

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from hfxling.arguments import run_recipe
from hfxling.evaluation.results import EvalResult, format_table, read_results
from hfxling.evaluation.tables import STALE, UNTRAINED, cell, learning_curve, study_table
from hfxling.files import atomic_path
from hfxling.hub.zoo import ZOO
from hfxling.training.zoo_cards import CARDS, zoo_card, zoo_table

ROOT = Path(__file__).resolve().parents[1]

TRANSLATION_PAIRS = ("lo-zh", "lo-th", "th-zh", "id-zh", "vi-zh")
TRANSLATION = (
    "Dictionary words by CSLS (K = 3) over the whole target vocabulary, NTREX lines 1 to 1543; the paper's own text "
    "and dictionaries were not released. Budget, seeds and P@5 are in each pair's own table below; `with links` adds "
    "the statistical links' cosines to those of the static vectors."
)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args(argv).check
    stale = [path for path, text in pages() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if check and stale:
        raise ValueError(f"{', '.join(path.name for path in stale)}: not what results/ say; run make cards.")
    for path, text in pages():
        if path in stale:
            with atomic_path(path) as scratch:
                scratch.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


def pages():
    """(path, text) of every rendered page."""
    for entry in ZOO.values():
        yield ROOT / CARDS / f"{entry.name}.md", zoo_card(entry, ROOT)
    files = sorted((ROOT / "results").glob("*.json"))
    yield ROOT / "docs" / "results.md", results_page(files)
    readme = ROOT / "README.md"
    tables, marked = {"results": readme_table(), "zoo": zoo_table(ROOT)}, readme.read_text(encoding="utf-8")
    for name, table in tables.items():
        place = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        marked = re.sub(place, lambda match, table=table: f"{match[1]}{table}\n{match[2]}", marked, flags=re.DOTALL)
    yield readme, marked


def results_page(files: list[Path]) -> str:
    """One section a results file: every row, both directions, every centring."""
    parts = [
        "# Results\n\nRendered from `results/*.json` by `make cards`, never typed by hand. P@k in %, mean over "
        "the seeds; in brackets the 95 % bootstrap interval over test sentences of the first seed. Centring: `none`, "
        "`train` (means of the training text), `corpus` (means of the test text, as in the paper). p: paired "
        "sign-flip test of the first seed against the same encoder's vectors at the same centring. "
        f"{STALE}: measured when equal sentences of a batch counted as negatives, to be measured anew."
    ]
    parts.append(f"## Word translation, all pairs\n\n{TRANSLATION}\n\n{translation_table()}")
    for path in files:
        content = json.loads(path.read_text(encoding="utf-8"))
        parts.append(f"## {path.stem}\n\n{content.get('title', '')}\n\n{file_table(read_results(path), content)}")
    return "\n\n".join(parts) + "\n"


def translation_table() -> str:
    """P@1 of every way of translating words on every language pair, in the layout of Zhang et al. (2024), Table V."""
    cells: dict[str, dict[str, list[EvalResult]]] = defaultdict(lambda: defaultdict(list))
    published: dict[str, dict[str, float]] = defaultdict(dict)
    for name in ("lexicon_baselines", *(f"aligner_study_{pair.replace('-', '_')}" for pair in TRANSLATION_PAIRS)):
        path = ROOT / "results" / f"{name}.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        for row in read_results(path):
            how = row.settings.get("decoding", "")
            if row.metric == "P@1" and how != "links alone":  # the same as the prior's in lexicon_baselines
                cells[", ".join(filter(None, (row.settings["row"], how)))][row.dataset.split()[-1]].append(row)
        for row in content["rows"]:
            if row.get("paper"):
                published[row["label"]][name[-5:].replace("_", "-")] = row["paper"][0]
    table = [
        [label, *(x for pair in TRANSLATION_PAIRS for x in (cell(found[pair]), published[label].get(pair, "")))]
        for label, found in cells.items()
    ]
    return format_table(["", *(x for pair in TRANSLATION_PAIRS for x in (f"{pair} P@1", "paper"))], table)


def file_table(rows: list[EvalResult], content: dict) -> str:
    """A study's results, or a benchmark's figures."""
    if not rows:
        return format_table(["figure", "value"], list(flat(content["figures"]).items()))
    if not any("fit" in row.settings for row in rows):  # of the siamese method, by encoder and layer
        return format_table(
            *study_table(rows, content["rows"], content["paper_columns"], content.get("show"))
        ) + language_table(rows)
    cells: dict[tuple, dict] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.settings["method"] != "cosine":
            continue
        label = row.settings.get("row", "encoder")
        key = (row.dataset, row.n, row.model, row.settings["layer"], label, row.direction)
        cells[key][row.metric, row.settings["centering"]].append(row)
    several = len({(row.dataset, row.n) for row in rows}) > 1  # sentences and paragraphs, other text
    header = [*(["test set", "n"] if several else []), "encoder", "layer", "head", "direction", "seeds", "pairs"]
    header += [f"{metric} {centering}" for centering in ("none", "train", "corpus") for metric in ("P@1", "P@5")]
    paper = {row["label"]: row["paper"] for row in content.get("rows", []) if row.get("paper")}
    table = []
    for key, found in cells.items():
        first = found["P@1", "none"][0]
        line = [*key[0 if several else 2 :], len(found["P@1", "none"]), first.settings.get("pairs")]
        for centering in ("none", "train", "corpus"):
            line += [shown(found["P@1", centering]), f"{np.mean([row.value for row in found['P@5', centering]]):.1f}"]
        if paper:
            line += [f"{value:g}" for value in paper.get(key[4], ())] + [""] * (2 * (key[4] not in paper))
        table.append(line)
    header += ["paper P@1", "paper P@5"] if paper else []
    return format_table(header, table) + curve_line(rows, content)


def flat(figures: dict) -> dict:
    """Figures of groups under the group's name and their own."""
    found = {}
    for name, value in figures.items():
        found |= {f"{name} {k}": v for k, v in flat(value).items()} if isinstance(value, dict) else {name: value}
    return found


def language_table(rows: list[EvalResult]) -> str:
    """Every language's mean and standard deviation over the seeds, where the study's own table shows averages only."""
    averaged = {(row.dataset, row.metric.split(" avg")[0]) for row in rows if "avg" in row.metric}
    cells: dict[tuple, dict[str, list[EvalResult]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if (row.dataset, row.metric) in averaged:
            cells[row.metric, row.direction, row.n][row.settings.get("row", UNTRAINED)].append(row)
    if not cells:
        return ""
    labels = list(dict.fromkeys(label for found in cells.values() for label in found))
    is_single = all(len(runs) == 1 for found in cells.values() for runs in found.values())
    table = [[*key, *(tested(found[label], is_single) for label in labels)] for key, found in cells.items()]
    return "\n\n" + format_table(["metric", "direction", "n", *labels], table)


def tested(rows: list[EvalResult], is_single: bool) -> str:
    """A figure; where no row has several seeds, with its interval and the p-value of its paired test."""
    paired = rows[0].settings.get("paired") if rows and is_single else None
    return cell(rows, interval=is_single) + (f" p={paired['p_value']:.2g}" if paired else "")


def curve_line(rows: list[EvalResult], content: dict) -> str:
    """What more training pairs would buy, where sizes were studied."""
    found = learning_curve(rows, content.get("rows", []))
    return f"\n\nAnother 1,000 pairs, points of P@1 ({rows[0].direction}, no centring): {found[1]}." if found else ""


def shown(rows: list[EvalResult]) -> str:
    """Mean over seeds, interval and p of the first."""
    first = rows[0]
    text = f"{np.mean([row.value for row in rows]):.1f} ({first.low:.1f}-{first.high:.1f})"
    text += f" p={first.settings['paired']['p_value']:.2g}" if "paired" in first.settings else ""
    return text + STALE * ("stale" in first.settings)


def readme_table() -> str:
    """P@1 of every model that `hfxling fit` can write, both directions, its size and speed."""
    path = ROOT / "results" / "retrieval_table.json"
    rows = [row for row in read_results(path) if row.metric == "P@1" and "candidates" not in row.settings]
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    table = []
    for label in (row["label"] for row in json.loads(path.read_text(encoding="utf-8"))["rows"]):
        own = [row for row in rows if row.settings["row"] == label]
        cells = [" / ".join(f"{row.value:.1f}" for row in own if row.dataset == name) for name in datasets]
        speed = int(np.median([row.settings["sentences_per_cpu_s"] for row in own]))
        table.append([label, *cells, f"{np.median([row.settings['megabytes'] for row in own]):.0f}", speed])
    return format_table(["P@1", *datasets, "MB", "sentences / CPU s"], table)


if __name__ == "__main__":
    run_recipe(main)
