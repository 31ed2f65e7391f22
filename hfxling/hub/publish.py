"""A model's folder, or data, onto the Hub: checked as a reader would, shown, then one commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from hfxling.data.licences import check_licence
from hfxling.hub.upload import Published, check_repo_id
from hfxling.values import named_entries
from hfxling.verbs import verb


@verb
def publish(
    folder: str | Path,
    *,
    repo: str,
    dataset: bool = False,
    adapter: bool = False,
    variants: Literal["branches", "repositories"] = "branches",
    dry_run: bool = False,
    create_pr: bool = False,
    branch: str = "main",
    tag: str | None = None,
    collection: str | None = None,
    private: bool = False,
    names: Sequence[str] = (),
    licence: str | None = None,
    base_licence: str | None = None,
    space: str | None = None,
    languages: Sequence[str] = (),
    trust_remote_code: bool = False,
    progress: bool = True,
) -> Published:
    """Check a model's folder, or data, and upload it to the Hub.

    The folder must open in a fresh process, with and without hfxling, to the same vectors; its card may hold no number
    that results.json lacks; its licence must allow it; no file may hold a path of this machine, a token or a
    pickle. What is unchanged is left alone. The token is that of `hf auth login`, or HF_TOKEN.

    Example:
        >>> print(hfxling.publish("outputs/zh-vi-sf/model", repo="org/zh-vi-sf", dry_run=True).table())

    Args:
        folder: a model's folder; with `dataset` a file of pairs or a folder of such files.
        repo: repository, namespace/name.
        dataset: publish data, not a model.
        adapter: of an encoder that `hfxling fit` trained further, publish the low-rank adapter alone, some megabytes:
            sentence-transformers with peft loads it on the encoder that it was trained for.
        variants: where a model's variants go, its parts for one language or its sparse vectors: to branches of the
            repository, or each to a repository of its own, REPO-VARIANT, all gathered in a collection.
        dry_run: check and show what would change, change nothing; without a token, all files are shown as new.
        create_pr: propose the change in a pull request.
        branch: branch that is written to, created where there is none.
        tag: name for the commit, such as v1.
        collection: title of a collection of the namespace that the repository is put into; by default none, and of
            variants in repositories the model's name.
        private: create the repository as a private one.
        names: what readers call what is local in the record, as LOCAL=PUBLIC: a path, or the base model.
        licence: the Hub's identifier, such as cc-by-sa-4.0, of a data set; of a model and its text where results.json
            states none.
        base_licence: licence of the base model, where the Hub states none.
        space: the Space of the Hub that shows the model (`hfxling demo --space`), namespace/name; the card links it.
        languages: of a data set, its languages, source first.
        trust_remote_code: run the folder's code to check it, even where it is not what this hfxling writes.
        progress: show bars.

    Returns:
        What changed, branch by branch or repository by repository, and where it is.

    Raises:
        ValueError: options that do not go together, no such licence, whatever stands against publishing the folder,
            what the Hub refuses.
        FileNotFoundError: no such folder, or none with a record.
    """
    check_repo_id("repo", repo)
    check_licence("licence", licence)
    check_licence("base_licence", base_licence)
    if create_pr and branch != "main":
        raise ValueError(f"create_pr with branch={branch}: a pull request is for main; leave one of both out.")
    if create_pr and (tag or collection):
        raise ValueError("create_pr: what is only proposed gets no tag and no collection; publish it again with them.")
    in_repositories = variants == "repositories"
    if in_repositories and (create_pr or branch != "main" or adapter or dataset):
        raise ValueError(
            "variants='repositories': create_pr, branch, adapter and dataset do not go with it; leave them or it out."
        )
    if in_repositories and not collection:
        collection = repo.partition("/")[2]
    if space is not None:
        check_repo_id("space", space)
    if dataset and (names or base_licence or space or adapter):
        raise ValueError("dataset: adapter, names, base_licence and space are for models; leave them out.")
    if not dataset and languages:
        raise ValueError("languages are for a data set; a model's are in its results.json.")
    public_names = named_entries("names", names, "LOCAL=PUBLIC")
    place = Path(folder)
    if not place.exists():
        raise FileNotFoundError(f"{place}: no such file or folder; give what is to be published.")
    from hfxling.hub.datasets import release_dataset  # loads torch
    from hfxling.hub.release import Release, release

    what = Release(
        place,
        repo,
        names=public_names,
        licence=licence,
        base_licence=base_licence,
        space=space,
        in_repositories=in_repositories,
        branch=branch,
        create_pr=create_pr,
        adapter=adapter,
        private=private,
        tag=tag,
        collection=collection,
        dry_run=dry_run,
        trust_remote_code=trust_remote_code,
    )
    if dataset:
        what.message = "Data with its card"
        return release_dataset(what, languages=languages)
    return release(what)
