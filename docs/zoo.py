"""The published models: the record of each in model_cards/, and the cards and the table that are made of them.

python docs/zoo.py FOLDER --repo hfxling/NAME [--names LOCAL=PUBLIC ...] [--base_licence mit] [--status SENTENCE]

takes the record over from the folder of a trained model, as `hfxling publish` would upload it.
"""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is asked of the Hub

from huggingface_hub import HfApi

from hfxling.console import run
from hfxling.evaluation.results import EvalResult, format_table, read_results
from hfxling.files import atomic_path
from hfxling.hub.card import CardInfo, render_card
from hfxling.hub.checks import folder_contents
from hfxling.hub.record import RECORD, read_record
from hfxling.hub.release import Release, renamed
from hfxling.hub.upload import read_content

ROOT = Path(__file__).resolve().parents[1]
CARDS = "model_cards"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repo", required=True)
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--base_licence")
    parser.add_argument("--status", help="what the card says first of all")
    args = parser.parse_args(argv)
    names = dict(name.split("=", 1) for name in args.names)
    what = Release(args.folder, args.repo, names=names, base_licence=args.base_licence)
    record = read_record(args.folder)
    if args.status is not None:
        record["card"]["status"] = args.status
    files, _ = renamed(folder_contents(args.folder), record, what, HfApi())
    path = ROOT / CARDS / f"{args.repo.partition('/')[2]}.json"
    with atomic_path(path) as scratch:
        scratch.write_bytes(read_content(files[RECORD]))
    print(f"wrote {path.relative_to(ROOT)}; `make cards` writes its card and the table")


def zoo_records(root: Path) -> list[Path]:
    """The records of all published models."""
    return sorted((root / CARDS).glob("*.json"))


def zoo_card(record: Path) -> str:
    """The card of a published model."""
    card = json.loads(record.read_text(encoding="utf-8"))["card"]
    return render_card(read_results(record), CardInfo.from_record(card))


def zoo_table(root: Path, above: str = "") -> str:
    """Every published model with its P@1 in both directions; `above` is put before the links to cards."""
    rows = []
    for record in zoo_records(root):
        card = json.loads(record.read_text(encoding="utf-8"))["card"]
        name = f"[{record.stem}]({above}{CARDS}/{record.stem}.md)"
        encoder = card["base_model"] if "/" in card["base_model"] else ""
        figures = test_figures(read_results(record))
        rows.append([name, card["method"], encoder, ", ".join(card["languages"]), card["licence"], figures])
    return format_table(["model", "method", "encoder", "languages", "licence", "P@1 on test lines"], rows)


def test_figures(results: list[EvalResult]) -> str:
    """P@1 of the first language pair, there and back, of what the model is first of all."""
    first = [row for row in results if row.metric == "P@1" and row.split == "test" and row.settings["stage"] == "after"]
    figures = {}
    for row in first:
        if row.settings.get("row") == first[0].settings.get("row"):
            figures.setdefault(row.direction, f"{row.value:.1f}")
    there = first[0].direction
    back = "->".join(reversed(there.split("->")))
    of_pair = f" ({there.replace('->', '-')})" if len(figures) > 2 else ""
    return f"{figures[there]} / {figures[back]}{of_pair}"


if __name__ == "__main__":
    run(main)
