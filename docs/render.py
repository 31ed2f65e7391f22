"""Render what is never typed by hand: model_cards/, tables of README.md and docs/, pictures, api.md, results, claims.

python docs/render.py [--check]     # --check writes nothing and fails when a page is not up to date
"""

import argparse
import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import yaml

import hfxling
from docs.commands import made_by
from docs.pictures import result_pictures
from docs.zoo import zoo_card, zoo_records, zoo_table
from hfxling.commands import COMMANDS, load_verb
from hfxling.console import run as run_recipe
from hfxling.evaluation.results import EvalResult, format_table, interval_told, p_told, read_results
from hfxling.evaluation.tables import UNTRAINED, cell, learning_curve, study_table
from hfxling.files import atomic_path

ROOT = Path(__file__).resolve().parents[1]
OTHERS = "software"  # the page of files whose name begins with no page's
LEGEND = (
    "Rendered from `results/*.json` and `docs/results/questions.yaml` by `make cards`, never typed by hand. P@k in %, "
    "mean over the seeds ± their standard deviation; in brackets the 95 % interval over test items "
    "([evaluation](../evaluation.md)), which knows nothing of other training runs. Centring: `none`, `train` (means of "
    "the training text), `corpus` (means of the test text, as in the paper of the siamese method). p: paired test "
    "against what the run started from; in tables by encoder and layer interval and p are the first seed's.\n\n"
    "CPU minutes are those of the command that is named, with earlier runs that it went on from; what was kept before "
    "(an encoder's vectors, counted links) is not in them. A command goes on from the file in `results/`: remove it "
    "first to measure anew. `../shared` has the measuring data."
)

TRANSLATION_PAIRS = ("lo-zh", "lo-th", "th-zh", "id-zh", "vi-zh")
TRANSLATION = (
    "Dictionary words by CSLS (K = 3), NTREX lines 1 to 1543; the paper's own text and dictionaries were not released. "
    "Budget, seeds and P@5 are in each pair's own table below; `with links` adds the statistical links' cosines to "
    "those of the static vectors. Commands are below each pair's own table, too."
)
PROTOCOL_HEADINGS = {
    "vocabulary": "Words of the training vocabularies, among these only (as Wada et al.'s scripts and the paper ask):",
    "composed": "Dictionary words of several segments too, and such translations among the candidates:",
}


CLAIMS = (
    "# What the papers claim, and what was seen here\n\nRendered from `docs/results/claims.yaml` and `results/*.json` "
    "by `make cards`. The paper's own figures are in brackets behind each claim. *Seen* and *not seen* are about the "
    "encoders, texts and budgets of this project: multilingual-e5-small (4-bit weights) where a file's name has me5 in "
    "it, small stand-ins elsewhere. Not seen is no refutation, and a claim that was not measured yet says so. "
    "Figures: mean over the seeds ± standard deviation (95 % interval over test items)."
)
CURVE_POINTS = 12  # of a curve that a table shows
VERDICTS = ("seen", "not seen", "cannot be tested")
LEVEL = 0.05
CENTRED = "encoder, centred"
PROGRAM = "fast_align"  # which is written so
# Units at the end or in the midst of a figure's key, and how a table has them.
UNITS = {
    r"\bcpu\b": "CPU",
    r"\bgpu\b": "GPU",
    r"\bmib\b": "MiB",
    r"\bgib\b": "GiB",
    r"\bmb\b": "MB",
    r"\bpflop\b": "PFLOP",
    r"\baer\b": "AER",
    r"\bparameters m$": "million parameters",
    r"\bper (CPU )?s$": r"per \1second",
    r"(?<= )s( per | to |$)": r"seconds\1",
    r"\bpercent\b": "in %",
    r"\bbelow (\d+)$": r"below \1 %",
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args(argv).check
    stale = {}
    for path, text in pages():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale[path] = text
    if check and stale:
        raise ValueError(f"{', '.join(path.name for path in stale)}: not what results/ say; run make cards.")
    for path, text in stale.items():
        with atomic_path(path) as scratch:
            scratch.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


def pages():
    """(path, text) of every rendered page."""
    for record in zoo_records(ROOT):
        yield record.with_suffix(".md"), zoo_card(record)
    sections = results_sections(sorted((ROOT / "results").glob("*.json")))
    for name, page in sections.items():
        yield ROOT / "docs" / "results" / f"{name}.md", results_page(page, name)
    yield ROOT / "docs" / "results.md", results_index(sections)
    yield ROOT / "docs" / "claims.md", claims_page()
    yield ROOT / "docs" / "api.md", api_page()
    for name, picture in result_pictures(ROOT):
        yield ROOT / name, picture
    tables = {
        "published": readme_table("retrieval_table_me5"),
        "results": readme_table("retrieval_table"),
        "zoo": zoo_table(ROOT, above="../"),
    }
    for path in (ROOT / "README.md", ROOT / "docs" / "choose.md", ROOT / "docs" / "zoo.md"):
        yield path, with_tables(path.read_text(encoding="utf-8"), tables)


def with_tables(page: str, tables: dict[str, str]) -> str:
    """A page with each table between its marks, <!-- NAME --> and <!-- end -->."""
    for name, table in tables.items():
        place = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        page = re.sub(place, lambda match, table=table: f"{match[1]}{table}\n{match[2]}", page, flags=re.DOTALL)
    return page


API = """# API

The first functions are commands, too, with the same options and defaults: `hfxling.mine("a.zh", "b.vi", top=0.8)` is
`hfxling mine a.zh b.vi --top 0.8`. Two commands have other names: `select` is `hfxling fit`, `align_words` is
`hfxling align`. *Text* is a file or another source ([which](text.md)), or a list of sentences; a *model* is a folder, a
Hub id or a loaded model. An output must not be one of the inputs.

The site shows signatures, parameters and examples here, from the docstrings; elsewhere use `help(hfxling.mine)`.

## Functions that are commands

"""


def api_page() -> str:
    """Every public name, as mkdocstrings wants it: what is a command first."""
    verbs = [load_verb(command) for command in COMMANDS]
    names = {verb.__name__ for verb in verbs}
    others = [getattr(hfxling, name) for name in hfxling.__all__ if name not in names]
    functions = [each for each in others if not isinstance(each, type)]
    classes = [each for each in others if isinstance(each, type)]
    parts = [API + entries(verbs), "## Other functions\n\n" + entries(functions), "## Classes\n\n" + entries(classes)]
    return "\n\n".join(parts) + "\n"


def entries(objects: list) -> str:
    """A line an object, which mkdocstrings replaces by its documentation."""
    return "\n\n".join(f"::: {each.__module__}.{each.__qualname__}" for each in objects)


def results_sections(files: list[Path]) -> dict[str, dict]:
    """What docs/results/questions.yaml says of these files, completed by those that it does not name yet."""
    pages = yaml.safe_load((ROOT / "docs" / "results" / "questions.yaml").read_text(encoding="utf-8"))
    names = {path.stem for path in files}
    for page in pages.values():
        page["files"] = {name: about for name, about in page["files"].items() if name in names}
    listed = {name for page in pages.values() for name in page["files"]}
    for path in files:
        if path.stem not in listed:
            name = path.stem.partition("_")[0]
            pages[name if name in pages else OTHERS]["files"][path.stem] = {}
    return pages


def results_page(page: dict, name: str) -> str:
    """One section a results file: the question, every row, the command that makes them; what they do not show."""
    parts = [f"# {page['title']}: results\n\n{LEGEND}"]
    if name == "aligner":
        tables = [(heading, translation_table(protocol)) for protocol, heading in PROTOCOL_HEADINGS.items()]
        shown_tables = [f"{heading}\n\n{table}" for heading, table in tables if table.count("\n") > 1]
        parts.append("\n\n".join(["## Word translation, all pairs", TRANSLATION, *shown_tables]))
    for stem, about in page["files"].items():
        path = ROOT / "results" / f"{stem}.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        title = content.get("title") or stem
        parts.append(f"## {about.get('question', title)}\n\n`{stem}`: {title}")
        rows = read_results(path)
        parts.append(file_table(rows, content))
        parts.append(made_by(stem, about, content, rows, ROOT))
        if "limits" in about:
            parts.append(f"**What it does not show:** {about['limits']}")
        if "since" in about:
            parts.append(f"**Since it was measured:** {about['since']}")
    return "\n\n".join(parts) + "\n"


def results_index(pages: dict[str, dict]) -> str:
    """Every page with its questions."""
    parts = ["# Results\n\nEach section asks a question, shows a table, and says what it does not show."]
    for name, page in pages.items():
        lines = [f"- `{stem}`: {about.get('question', '')}" for stem, about in page["files"].items()]
        parts.append(f"## [{page['title']}](results/{name}.md)\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def claims_page() -> str:
    """Every claim of the papers with its verdict and the rows that it rests on, from docs/results/claims.yaml."""
    papers = yaml.safe_load((ROOT / "docs" / "results" / "claims.yaml").read_text(encoding="utf-8"))
    parts = [CLAIMS]
    counts = [
        [paper["title"], *(sum(x["verdict"] == v for x in paper["claims"]) for v in VERDICTS)]
        for paper in papers.values()
    ]
    parts.append(format_table(["", *VERDICTS], counts))
    for name, paper in papers.items():
        parts.append(f"## {paper['title']}\n\nTables: [results/{name}.md](results/{name}.md).")
        for claim in paper["claims"]:
            lines = [
                f"**{claim['claim']}** ({claim['said']})",
                f"**{claim['verdict'].capitalize()} here.** {claim['why']}",
            ]
            lines += [f"- {evidence(rows)}" for rows in claim.get("rows", [])]
            parts.append("\n".join([lines[0] + "\\", *lines[1:2], *([""] if lines[2:] else []), *lines[2:]]))
    return "\n\n".join(parts) + "\n"


@cache
def rows_of(path: Path) -> list[EvalResult]:
    """Of a results file, which many claims name."""
    return read_results(path)


def evidence(wanted: dict) -> str:
    """The figures that an entry of a claim names, with file and label.

    Raises:
        ValueError: a row or figure that is not in the file.
    """
    path = ROOT / "results" / f"{wanted['file']}.json"
    if "figures" in wanted:
        figures = flat(json.loads(path.read_text(encoding="utf-8"))["figures"])
        found = {name: figures.get(name) for name in wanted["figures"]}
        shown = {name: f"{value:.2f}" for name, value in found.items() if value is not None}
    else:
        where = {key: value for key, value in wanted.items() if key not in ("file", "labels")}
        rows = [row for row in rows_of(path) if matches(row, where)]
        of_label = {label: [x for x in rows if x.settings.get("row", UNTRAINED) == label] for label in wanted["labels"]}
        found = {label: cell(some) for label, some in of_label.items()}
        shown = {label: text for label, text in found.items() if text}
    missing = [name for name in found if name not in shown]
    if missing:
        raise ValueError(f"docs/results/claims.yaml: {path.name} has no {', '.join(missing)} of {wanted}.")
    about = [str(wanted[key]) for key in ("metric", "direction", "dataset", "protocol") if key in wanted]
    about += [f"centring {wanted['centering']}"] if "centering" in wanted else []
    told = "; ".join(f"{name} {value}" for name, value in shown.items())
    return f"`{wanted['file']}`{', '.join(['', *about])}: {told}"


def matches(row: EvalResult, where: dict) -> bool:
    """Whether a row's fields and settings are those."""
    known = row.settings | {name: getattr(row, name) for name in ("metric", "direction", "dataset", "model", "n")}
    if "decoding" in row.settings or row.settings.get("stage") == "during":
        return False
    return all(known.get(key) == value for key, value in where.items())


def translation_table(protocol: str) -> str:
    """P@1 of every way of translating words on every language pair, in the layout of Zhang et al. (2024), Table V.

    The paper's figures stand beside the first protocol only.
    """
    cells: dict[str, dict[str, list[EvalResult]]] = defaultdict(lambda: defaultdict(list))
    published: dict[str, dict[str, float]] = defaultdict(dict)
    for name in ("lexicon_baselines", *(f"aligner_study_{pair.replace('-', '_')}" for pair in TRANSLATION_PAIRS)):
        path = ROOT / "results" / f"{name}.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        for row in read_results(path):
            how = row.settings.get("decoding", "")
            if row.settings.get("stage") == "before" or row.metric != "P@1" or how == "links alone":
                continue
            if row.settings["protocol"] == protocol:
                label = ", ".join(filter(None, (row.settings["row"], how)))
                cells[label][row.dataset.split()[-1]].append(row)
        for row in content["rows"]:
            if row.get("paper") and protocol == "vocabulary":
                published[row["label"]][name[-5:].replace("_", "-")] = row["paper"][0]
    paper = ["paper"] * (protocol == "vocabulary")
    table = [
        [
            label,
            *(
                x
                for pair in TRANSLATION_PAIRS
                for x in (cell(found[pair]), *(published[label].get(pair, "") for _ in paper))
            ),
        ]
        for label, found in cells.items()
    ]
    return format_table(["", *(x for pair in TRANSLATION_PAIRS for x in (f"{pair} P@1", *paper))], table)


def file_table(rows: list[EvalResult], content: dict) -> str:
    """A study's results, or a benchmark's figures."""
    if not rows:
        return figures_tables(content["figures"])
    if "tests" in content:
        return (
            tests_table(content["tests"])
            + "\n\n"
            + format_table(*study_table(rows, content["rows"], show=content["show"]))
        )
    if not any("fit" in row.settings for row in rows):  # of the siamese method, by encoder and layer
        return (
            format_table(*study_table(rows, content["rows"], content["paper_columns"], content.get("show")))
            + language_table(rows)
            + paired_table(rows, content.get("show") or {})
            + curve_table(rows)
        )
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


def tests_table(tests: list[dict]) -> str:
    """Every head beside those that it was tested against; what is not significant is said."""
    lines: dict[tuple, dict[str, str]] = {}
    for test in tests:
        verdict = f"{test['difference']:+.1f} ({test['low']:.1f} to {test['high']:.1f})"
        verdict += f" p={test['p_holm']:.2g}" if test["p_holm"] < LEVEL else ", not significant"
        key = (test["encoder"], test["head"], test["centring"], test.get("seeds", ""), f"{test['P@1']:.1f}", test["n"])
        role = "over the centred encoder" if test["against"] == CENTRED else "over the one best on development pairs"
        lines.setdefault(key, {})[role] = verdict
    roles = list(dict.fromkeys(role for found in lines.values() for role in found))
    header = ["encoder, layer", "head", "centring", "seeds", "P@1, both directions", "n", *roles]
    return format_table(header, [[*key, *(found.get(role, "") for role in roles)] for key, found in lines.items()])


def figures_tables(figures: dict) -> str:
    """A line a figure, its key as words; of groups of groups a line a group, those of the same figures in one table."""
    figures = as_words(figures)
    single = flat({name: value for name, value in figures.items() if not is_nested(value)})
    tables = [format_table(["figure", "value"], list(single.items()))] if single else []
    alike = defaultdict(list)
    for name, value in figures.items():
        for group, found in value.items() if is_nested(value) else ():
            found = flat(found) if isinstance(found, dict) else {"value": found}
            alike[tuple(found)].append([f"{name} {group}", *found.values()])
    return "\n\n".join(tables + [format_table(["", *names], table) for names, table in alike.items()])


def as_words(figures: dict) -> dict:
    """The same with keys such as `peak MiB` in place of `peak_mib`."""
    words = {}
    for name, value in figures.items():
        words[in_words(name)] = as_words(value) if isinstance(value, dict) else value
    return words


def in_words(key: str) -> str:
    """A figure's key as words, its unit as it is written: `below 93 %` for `below_93`."""
    if PROGRAM in key:
        return key
    key = key.replace("_", " ")
    for pattern, unit in UNITS.items():
        key = re.sub(pattern, unit, key)
    return key


def is_nested(value: object) -> bool:
    """Whether it is a group of groups."""
    return isinstance(value, dict) and any(isinstance(part, dict) for part in value.values())


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
        if (row.dataset, row.metric) in averaged and row.dataset != "development":  # there averages choose
            cells[row.metric, row.direction, row.n][row.settings.get("row", UNTRAINED)].append(row)
    if not cells:
        return ""
    labels = list(dict.fromkeys(label for found in cells.values() for label in found))
    is_single = all(len(runs) == 1 for found in cells.values() for runs in found.values())
    table = [[*key, *(tested(found[label], is_single) for label in labels)] for key, found in cells.items()]
    return "\n\n" + format_table(["metric", "direction", "n", *labels], table)


def paired_table(rows: list[EvalResult], show: dict) -> str:
    """What systems have more than the one that their rows name, on the same items, with the p-value of the test."""
    cells: dict[tuple, dict[str, str]] = defaultdict(dict)
    for row in rows:
        paired, about = row.settings.get("paired", {}), row.settings
        if "with" in paired and row.metric in show.get("metric", ()):
            column = " ".join(filter(None, (row.dataset, row.metric, about.get("protocol"), about.get("decoding"))))
            told = f"{paired['difference']:+.1f} (p {p_told(paired['p_value'])})"
            cells[about["row"], paired["with"]][column] = told
    columns = list(dict.fromkeys(column for found in cells.values() for column in found))
    table = [[*key, *(found.get(column) for column in columns)] for key, found in cells.items()]
    return "\n\n" + format_table(["paired test", "against", *columns], table) if table else ""


def curve_table(rows: list[EvalResult]) -> str:
    """What was measured while training, by steps or epochs, and the CPU seconds until then; seeds' means.

    Of a long curve every second, third, ... point, the last one always.
    """
    cells: dict[tuple, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    unit = "step"
    for row in (row for row in rows if row.settings["stage"] == "during"):
        about = row.settings
        unit = "step" if "step" in about else "epoch"
        metric = " ".join(filter(None, (row.metric, about.get("protocol"), about.get("decoding"))))
        cells[row.dataset, metric, row.direction or "", about["row"]][about[unit]].append(row.value)
        spent = about["train_cpu_s"] if unit == "step" else about["cpu_seconds"]
        cells["", "CPU s", "", about["row"]][about[unit]].append(spent)
    if not cells:
        return ""
    points = sorted({point for found in cells.values() for point in found})
    points = points[::-1][:: -(-len(points) // CURVE_POINTS)][::-1]
    ordered = sorted(cells.items(), key=lambda entry: entry[0][:3])  # the labels of a figure in their own order
    table = [
        [*key, *(f"{np.mean(found[point]):.1f}" if point in found else "" for point in points)]
        for key, found in ordered
    ]
    return "\n\n" + format_table(
        ["while training", "metric", "direction", "", *(f"{unit} {point:g}" for point in points)], table
    )


def tested(rows: list[EvalResult], is_single: bool) -> str:
    """A figure; where no row has several seeds, with its interval and the p-value of its paired test."""
    paired = rows[0].settings.get("paired") if rows and is_single else None
    return cell(rows, interval=is_single) + (f" p={paired['p_value']:.2g}" if paired else "")


def curve_line(rows: list[EvalResult], content: dict) -> str:
    """What more training pairs would buy, where sizes were studied."""
    found = learning_curve(rows, content.get("rows", []))
    return f"\n\nAnother 1,000 pairs, points of P@1 ({rows[0].direction}, no centring): {found}." if found else ""


def shown(rows: list[EvalResult]) -> str:
    """Mean over seeds, interval and p of the first."""
    first = rows[0]
    text = f"{np.mean([row.value for row in rows]):.1f} ({interval_told(first.low, first.high)})"
    return text + (f" p={first.settings['paired']['p_value']:.2g}" if "paired" in first.settings else "")


def readme_table(name: str) -> str:
    """P@1 of every model that `hfxling fit` can write, both directions, its size and speed; how far intervals reach."""
    path = ROOT / "results" / f"{name}.json"
    rows = [row for row in read_results(path) if row.metric == "P@1"]
    datasets = dict.fromkeys(row.dataset for row in sorted(rows, key=lambda row: "candidates" in row.settings))
    table = []
    for label in (row["label"] for row in json.loads(path.read_text(encoding="utf-8"))["rows"]):
        own = [row for row in rows if row.settings["row"] == label]
        if not own:
            continue
        cells = [" / ".join(f"{row.value:.1f}" for row in own if row.dataset == dataset) for dataset in datasets]
        speed = int(np.median([row.settings["sentences_per_cpu_s"] for row in own]))
        table.append([label, *cells, f"{np.median([row.settings['megabytes'] for row in own]):.0f}", speed])
    sizes = " or ".join(str(n) for n in sorted({row.n for row in rows}))
    widest = max((row.high - row.low) / 2 for row in rows)
    seeds = len({row.seed for row in rows})
    told = (
        f"Test sets of {sizes} sentences, {seeds} seed: 95 % intervals reach up to {widest:.1f} points to either side."
    )
    return f"{format_table(['P@1', *datasets, 'MB', 'sentences / CPU s'], table)}\n\n{told}"


if __name__ == "__main__":
    run_recipe(main)
