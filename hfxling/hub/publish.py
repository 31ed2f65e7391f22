"""Publish a model's folder, or data: check it as a reader would, show what changes, then make one commit."""

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

    The checks: the folder opens in a fresh process to the same vectors with and without hfxling; every number in the
    card is in results.json; the licence allows publishing; no file holds a path of this machine, a token or a pickle.
    Unchanged files are not uploaded again. The token is that of `hf auth login`, or HF_TOKEN.

    Example:
        >>> print(hfxling.publish("outputs/zh-vi-sf/model", repo="org/zh-vi-sf", dry_run=True).table())

    Args:
        folder: folder of the model; with `dataset` a file of pairs, or a folder of such files.
        repo: name of the repository, namespace/name.
        dataset: publish data, not a model.
        adapter: publish only the low-rank adapter (some megabytes) of an encoder that `hfxling fit` trained further;
            sentence-transformers with peft loads it on top of the encoder that it was trained for.
        variants: where the variants of a model go (its parts for single languages, its sparse vectors): to branches of
            the repository, or each to a repository of its own, REPO-VARIANT, all gathered in a collection.
        dry_run: check and show what would change, but change nothing. Without a token, all files are shown as new.
        create_pr: propose the change in a pull request.
        branch: branch to write to; it is created if it does not exist.
        tag: name for the commit, such as v1.
        collection: title of a collection of the namespace to put the repository into; by default none, or the model's
            name if variants go to repositories.
        private: create the repository as a private one.
        names: public names for what is local in results.json, as LOCAL=PUBLIC: a path, or the base model.
        licence: licence as the Hub's identifier, such as cc-by-sa-4.0: of the data set, or of a model and its text if
            results.json states none.
        base_licence: licence of the base model, if the Hub states none.
        space: name of the Space that shows the model (see `hfxling demo --space`), namespace/name; the card links it.
        languages: codes of a data set's languages, source first.
        trust_remote_code: run the folder's code for the checks, even if it differs from what this hfxling writes.
        progress: show progress bars.

    Returns:
        What changed in each branch or repository, and its address.

    Raises:
        ValueError: for options that do not go together or an unknown licence; if a check fails, or the Hub refuses.
        FileNotFoundError: if the folder does not exist, or has no results.json.
    """
    check_repo_id("repo", repo)
    check_licence("licence", licence)
    check_licence("base_licence", base_licence)
    if create_pr and branch != "main":
        raise ValueError(f"create_pr with branch={branch}: pull requests are for main; leave out one of the two.")
    if create_pr and (tag or collection):
        raise ValueError(
            "create_pr: a proposed change gets no tag and no collection; leave them out, and set them in another run."
        )
    in_repositories = variants == "repositories"
    if in_repositories and (create_pr or branch != "main" or adapter or dataset):
        raise ValueError(
            "variants='repositories' cannot be used with create_pr, branch, adapter or dataset; leave one of them out."
        )
    if in_repositories and not collection:
        collection = repo.partition("/")[2]
    if space is not None:
        check_repo_id("space", space)
    if dataset and (names or base_licence or space or adapter):
        raise ValueError("dataset: adapter, names, base_licence and space are for models; leave them out.")
    if not dataset and languages:
        raise ValueError("languages is only for a data set (a model's are in its results.json); leave it out.")
    public_names = named_entries("names", names, "LOCAL=PUBLIC")
    place = Path(folder)
    if not place.exists():
        raise FileNotFoundError(f"{place}: no such file or folder; give the one to publish.")
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
