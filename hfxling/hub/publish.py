"""The complete folder of a trained model, and its way to the Hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

from hfxling.evaluation.results import EvalResult, write_results
from hfxling.files import atomic_path

from .card import CardInfo, write_card


def publish(
    folder: str | Path,
    write_model: Callable[[Path], None],
    results: Sequence[EvalResult],
    card: CardInfo,
    *,
    recipe: str,
    push: bool = False,
    private: bool = False,
) -> Path:
    """Write model, results.json, config.yaml and card; the folder takes its name only when all of it is there.

    Args:
        folder: final folder; an earlier one of that name is replaced.
        write_model: writes weights, tokenizer and code into the folder that it is given.
        results: all that was measured; also what the card shows.
        card: everything else that the card says.
        recipe: name of the program.
        push: upload the folder to `card.repo_id`; the repository is created when it does not exist.
        private: create it as a private repository.

    Raises:
        ValueError: for results or card entries that cannot be published (see `write_results`, `render_card`), or a
            `card.repo_id` without a namespace when pushing.
    """
    folder = Path(folder)
    if push and "/" not in card.repo_id:
        raise ValueError(f"hub_model_id={card.repo_id!r}: give the repository as namespace/name to push to it.")
    with atomic_path(folder) as scratch:
        scratch.mkdir()
        write_model(scratch)
        write_results(scratch / "results.json", results, recipe=recipe, settings=card.configuration)
        (scratch / "config.yaml").write_text(_yaml(card.configuration), encoding="utf-8")
        write_card(scratch / "README.md", results, card)
    if push:
        from huggingface_hub import HfApi

        api = HfApi()
        api.create_repo(card.repo_id, private=private, exist_ok=True)
        api.upload_folder(repo_id=card.repo_id, folder_path=folder, commit_message=f"Model trained with {recipe}")
    return folder


def _yaml(settings: Mapping) -> str:
    return yaml.safe_dump(dict(settings), allow_unicode=True, sort_keys=False)
