"""Write the complete folder of a trained model, and push it to the Hub."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub import HfApi, get_token
from safetensors import safe_open

from hfxling.encoders.fusion import FILE as FUSION
from hfxling.evaluation.results import EvalResult, read_results, write_results
from hfxling.files import atomic_path

from .card import CardInfo, is_of_both, moved, public_yaml, render_card
from .checks import ADAPTER, base_licence
from .index import folder_tags, told_apart
from .record import CARD, RECORD, file_hashes, sealed
from .release import Release, release
from .snippets import ADAPTER_TITLE, adapter_snippet, clients_of, width_of
from .upload import check_repo_id

if TYPE_CHECKING:
    from torch import Tensor

# Entries of results.json that `write_record` writes; all others are kept when it is rewritten.
_WRITTEN_ANEW = ("results", "versions", "recipe", "settings", "card", "files", "digest")


def publish(
    folder: str | Path,
    write_model: Callable[[Path], None],
    results: Sequence[EvalResult],
    card: CardInfo,
    *,
    recipe: str,
    extra: Mapping | None = None,
    push: bool = False,
    private: bool = False,
    branches: Sequence[str] = (),
) -> Path:
    """Write model, results.json, config.yaml and card; the folder gets its name only when it is complete.

    Args:
        folder: final folder; an earlier one of that name is replaced.
        write_model: function that writes weights, tokenizer and code into the folder that it is given.
        results: all rows that were measured.
        card: everything else that the card says.
        recipe: name of the program.
        extra: further entries of results.json, such as what the fit chose.
        push: check the folder and upload it to `card.repo_id`; the repository is created if there is none.
        private: create it as a private one.
        branches: subfolders that are also pushed to a branch of their name, where their files replace the root's.

    Raises:
        ValueError: for weights that are not finite, and whatever `write_results`, `render_card`, `check_push` or
            `release` refuse; if the upload fails, when the folder is complete.
    """
    folder = Path(folder)
    if push:
        check_push(card.repo_id)
        card = replace(card, base_licence=base_licence(card.base_model, HfApi()))
    with atomic_path(folder) as scratch:
        scratch.mkdir()
        write_model(scratch)
        check_finite(stored_tensors(scratch))
        write_record(scratch, results, card, recipe=recipe, extra={"branches": [*branches], **(extra or {})})
    if push:
        what = Release(folder, card.repo_id, private=private, message=f"Model trained with {recipe}")
        try:
            sys.stdout.write(release(what).table() + "\n")
        except ValueError as error:
            retry = f"the model is complete in {folder}; try again with hfxling publish {folder} --repo {card.repo_id}"
            raise ValueError(f"{str(error).rstrip('.')}; {retry}") from None
    return folder


def write_record(
    folder: Path, results: Sequence[EvalResult], card: CardInfo, *, recipe: str, extra: Mapping | None = None
) -> None:
    """Write card, configuration and results.json, from which the card can be rendered again, when the rest is there."""
    base = told_apart(card.base_model)
    of_folder = {"base_model": base, "clients": clients_of(folder), "width": width_of(folder)}
    if (folder / FUSION).is_file() and card.lexical is None:
        beside = card.repo_id if "/" in card.repo_id else "-".join(card.languages)
        of_folder["lexical"] = f"{beside}-lexical"
    if card.method == "lexical" and card.dense is None and is_of_both(results):
        dense = card.repo_id.removesuffix("-lexical")  # as `hfxling fit --repo` names the two
        if "/" in dense and dense != card.repo_id:
            of_folder["dense"] = dense
    if (folder / ADAPTER).is_file():
        of_folder["loading"] = {**card.loading, ADAPTER_TITLE: adapter_snippet(base)}
    card = replace(card, **of_folder, tags=folder_tags(folder))
    (folder / "config.yaml").write_text(public_yaml(card.configuration), encoding="utf-8")
    # The hashes need all other files; the seal needs the record.
    entries = {"card": asdict(card), **(extra or {}), "files": file_hashes(folder)}
    record = folder / RECORD
    write_results(record, results, recipe=recipe, settings=card.configuration, extra=entries)
    record.write_text(sealed(record.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / CARD).write_text(render_card(read_results(record), card), encoding="utf-8")


def rewrite_record(folder: Path, rows: Sequence[EvalResult], extra: Mapping) -> None:
    """Rewrite results.json and card of a folder with these rows and new or changed entries (None removes one).

    Sentences that were added to the card by hand stay.
    """
    record, card = folder / RECORD, folder / CARD
    content = json.loads(record.read_text(encoding="utf-8"))
    written = card.read_text(encoding="utf-8") if card.is_file() else None
    entries = {name: value for name, value in content.items() if name not in _WRITTEN_ANEW} | {**extra}
    entries = {name: value for name, value in entries.items() if value is not None}
    write_record(folder, rows, CardInfo.from_record(content["card"]), recipe=content["recipe"], extra=entries)
    if written is not None:
        now = json.loads(record.read_text(encoding="utf-8"))
        card.write_text(moved(written, content, now), encoding="utf-8")


def check_push(repo_id: str | None) -> None:
    """Refuse, before anything is trained, a push that cannot succeed."""
    if not repo_id:
        raise ValueError("push_to_hub: no repository is named; give --hub_model_id namespace/name.")
    check_repo_id("hub_model_id", repo_id)
    if not get_token():
        raise ValueError(f"there is no token to push to {repo_id}; run hf auth login, or set HF_TOKEN.")


def check_finite(tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Raise a ValueError that names the first tensor with weights that are not finite."""
    for name, tensor in tensors:
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(
                f"{name} holds values that are not finite: the training diverged; give a lower learning rate."
            )


def stored_tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of the safetensors files in a folder, by file and name."""
    for path in sorted(folder.rglob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - it is no dictionary
                yield f"{path.relative_to(folder)}: {name}", file.get_tensor(name)
