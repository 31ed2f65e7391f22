"""The complete folder of a trained model, and its way to the Hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub import HfApi, get_token
from huggingface_hub.errors import HTTPError
from huggingface_hub.utils import validate_repo_id
from safetensors import safe_open

from hfxling.evaluation.results import EvalResult, read_results, write_results
from hfxling.files import atomic_path

from .card import CardInfo, public_yaml, render_card
from .index import told_apart
from .record import CARD, RECORD, file_hashes, sealed
from .snippets import clients_of, width_of

if TYPE_CHECKING:
    from torch import Tensor


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
    token: str | None = None,
    branches: Sequence[str] = (),
) -> Path:
    """Write model, results.json, config.yaml and card; the folder takes its name only when all of it is there.

    Args:
        folder: final folder; an earlier one of that name is replaced.
        write_model: writes weights, tokenizer and code into the folder that it is given.
        results: all that was measured; also what the card shows.
        card: everything else that the card says.
        recipe: name of the program.
        extra: further entries of results.json, such as what the fit chose.
        push: upload the folder to `card.repo_id`, a repository that is created where there is none.
        private: create it as a private one.
        token: of the Hub; by default the one that `hf auth login` stored.
        branches: subfolders that are pushed to a branch of their name as well: there their files lie over the root's.

    Raises:
        ValueError: for weights that are not finite, what `write_results`, `render_card` or `check_push` refuse, or when
            the upload fails; the folder is complete then.
    """
    folder = Path(folder)
    if push:
        check_push(card.repo_id, token)
    with atomic_path(folder) as scratch:
        scratch.mkdir()
        write_model(scratch)
        check_finite(stored_tensors(scratch))
        write_record(scratch, results, card, recipe=recipe, extra={"branches": [*branches], **(extra or {})})
    if push:
        _upload(folder, card.repo_id, f"Model trained with {recipe}", branches, private=private, token=token)
    return folder


def write_record(
    folder: Path, results: Sequence[EvalResult], card: CardInfo, *, recipe: str, extra: Mapping | None = None
) -> None:
    """Write the card, the configuration and results.json, from which the card can be rendered again.

    Args:
        folder: with all other files; their hashes are recorded.
        results: all that was measured.
        card: everything else that the card says.
        recipe: name of the program.
        extra: further entries of results.json.
    """
    found = {"base_model": told_apart(card.base_model), "clients": clients_of(folder), "width": width_of(folder)}
    card = replace(card, **found)
    (folder / "config.yaml").write_text(public_yaml(card.configuration), encoding="utf-8")
    about = {"card": asdict(card), **(extra or {}), "files": file_hashes(folder)}
    record = folder / RECORD
    write_results(record, results, recipe=recipe, settings=card.configuration, extra=about)
    record.write_text(sealed(record.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / CARD).write_text(render_card(read_results(record), card), encoding="utf-8")


def check_push(repo_id: str | None, token: str | None = None) -> None:
    """Refuse, before anything is trained, a push that cannot succeed.

    Raises:
        ValueError: a repository without a namespace, or no token.
    """
    if not repo_id or repo_id.count("/") != 1:
        raise ValueError(f"hub_model_id={repo_id!r}: give the repository as namespace/name to push to it.")
    validate_repo_id(repo_id)
    if not (token or get_token()):
        raise ValueError(f"no token to push to {repo_id} with; run hf auth login, or set HF_TOKEN.")


def _upload(
    folder: Path, repo_id: str, message: str, branches: Sequence[str], *, private: bool, token: str | None
) -> None:
    api = HfApi(token=token)
    try:
        api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=message)
        for branch in branches:
            api.create_branch(repo_id, branch=branch, exist_ok=True)
            for part in (folder, folder / branch):
                api.upload_folder(repo_id=repo_id, folder_path=part, commit_message=message, revision=branch)
    except (HTTPError, OSError, ValueError) as error:
        cause = " ".join(str(error).split())
        raise ValueError(
            f"the upload to {repo_id} failed ({cause}); the model is complete in {folder}: "
            f"try again with hf upload {repo_id} {folder}"
        ) from None


def check_finite(tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Raise the ValueError that names the first tensor with weights that are not finite."""
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
