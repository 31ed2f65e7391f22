"""Cards of the zoo: of a run's record where there is one, else of the entry, which says that there is none."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from types import SimpleNamespace

from transformers import TrainingArguments

from hfxling.arguments import parse_arguments, resolved
from hfxling.evaluation.results import format_table, read_results
from hfxling.hub.card import CardInfo, render_card
from hfxling.hub.index import headline
from hfxling.hub.zoo import ZOO, Entry

from . import method

CARDS = "model_cards"


def zoo_card(entry: Entry, root: Path) -> str:
    """The card of an entry.

    Raises:
        ValueError: a record that is not of this entry.
    """
    record = root / CARDS / f"{entry.name}.json"
    if not record.is_file():
        return render_card([], planned(entry, root))
    card = json.loads(record.read_text(encoding="utf-8"))["card"]
    if (card["repo_id"], card["method"]) != (entry.repo_id, entry.method):
        raise ValueError(f"{record}: the record of {card['repo_id']} ({card['method']}), not of {entry.repo_id}.")
    return render_card(read_results(record), CardInfo.from_record(card))


def planned(entry: Entry, root: Path) -> CardInfo:
    """What the card of a model says that nobody has trained: what the recipe makes of the entry's command."""
    package = method(entry.method)
    words = [*entry.words(), "--use_cpu", "true"]  # this machine need not be one that could train it
    types = (package.Arguments, TrainingArguments)
    with contextlib.chdir(root):
        recipe, _ = parse_arguments(types, words, defaults=package.TRAINING_DEFAULTS)
    # In place of text and of a run there is just what the methods' `card` reads of them.
    corpus = SimpleNamespace(languages=entry.languages, coverage=None, pairs=[])
    prepared = SimpleNamespace(corpus=corpus, views=[SimpleNamespace(is_shared=False)])
    run = SimpleNamespace(reached={"objective": getattr(recipe, "objective", None)}, results=[])
    of_method = package.card(recipe, prepared, run)
    status = "**Not trained at full size yet, so there are no scores here.** The command below trains it"
    status += f" ({entry.cost})."
    fault = entry.release_fault()
    if fault:
        status += f" **It may not be released:** {fault}"
    of_entry = {
        "repo_id": entry.repo_id,
        "method": entry.method,
        "base_model": entry.base or of_method["base_model"],
        "languages": entry.languages,
        "licence": entry.licence,
        "train_data": entry.data,
        "training_command": entry.command(),
        "configuration": resolved(recipe),
        "status": status,
        "base_licence": entry.base_licence,
    }
    return CardInfo(**of_method | of_entry)


def zoo_table(root: Path, above: str = "") -> str:
    """Every entry with its first figure, both directions, where it was trained; of which pair, if there are several.

    `above` is put before the links to cards, such as "../" for a page in a folder.
    """
    rows = []
    for entry in ZOO.values():
        record = root / CARDS / f"{entry.name}.json"
        scores = headline(read_results(record), {}) if record.is_file() else []
        measured = "not trained yet"
        if scores:
            first, _ = scores[0]
            figures = " / ".join(f"{row.value:.1f}" for row, _ in scores[:2])
            of_pair = f" {first.direction}" if len(scores) > 2 else ""
            measured = f"{first.metric}{of_pair} {figures}, {first.dataset}"
        if entry.release_fault():
            measured += "; may not be released"
        languages = ", ".join(entry.languages) if len(entry.languages) < 8 else f"{len(entry.languages)} languages"
        name = f"[{entry.name}]({above}{CARDS}/{entry.name}.md)"
        rows.append([name, entry.method, entry.base or "", languages, entry.licence, measured])
    return format_table(["model", "method", "encoder", "languages", "licence", "measured"], rows)
