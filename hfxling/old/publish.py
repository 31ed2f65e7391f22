"""Put a model's folder, or data, onto the Hub: checked as a reader would, shown, then one commit.

hfxling publish outputs/zh-vi-sf/model --repo org/zh-vi-sf --dry_run
hfxling publish outputs/zh-vi-sf/model --repo org/zh-vi-sf [--create_pr] [--branch NAME] [--tag v1] [--collection TITLE]
hfxling publish pairs.tsv --dataset --repo org/zh-vi-pairs --languages zh vi --licence cc-by-sa-4.0

The folder must open in a fresh process, with and without hfxling, to the same vectors; its card may hold no number that
results.json lacks; its licence must allow it; no file may hold a path of this machine, a token or a pickle. What is
unchanged is left alone, and what changed on the Hub since --dry_run is not written over. The token is that of
hf auth login, or HF_TOKEN.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hfxling.arguments import key, parse_arguments
from hfxling.data.licences import check_licence


@dataclass(kw_only=True)
class PublishArguments:
    """What goes where."""

    folder: str = key("a model's folder; with --dataset a file of pairs or a folder of such files", positional=True)
    repo: str | None = key("repository, namespace/name; by default that of --zoo", None)
    zoo: str | None = key("entry of the zoo that the folder must be", None)
    dataset: bool = key("publish data, not a model", False)
    dry_run: bool = key("check and show what would change, change nothing", False)
    create_pr: bool = key("propose the change in a pull request", False)
    branch: str = key("branch that is written to, created where there is none", "main")
    tag: str | None = key("name for the commit, such as v1", None)
    collection: str | None = key("title of a collection of the namespace that the repository is put into", None)
    private: bool = key("create the repository as a private one", False)
    names: list[str] = key("what readers call what is local in the record: LOCAL=PUBLIC, a path or the base model", [])
    base_licence: str | None = key("licence of the base model, where the Hub states none", None)
    languages: list[str] = key("of a data set: its languages, source first", [])
    licence: str | None = key("of a data set: the Hub's identifier", None)
    report: str | None = key(
        "of a data set: rounds.json of hfxling bootstrap, or the dropped pairs of hfxling clean", None
    )

    def __post_init__(self):
        from huggingface_hub.errors import HFValidationError
        from huggingface_hub.utils import validate_repo_id

        check_licence("licence", self.licence)
        check_licence("base_licence", self.base_licence)
        if self.repo is None and self.zoo is None:
            raise ValueError("give --repo namespace/name, or --zoo with the name of an entry.")
        if self.repo is not None and self.repo.count("/") != 1:
            raise ValueError(f"repo={self.repo!r}: give the repository as namespace/name.")
        try:
            validate_repo_id(self.repo or "org/name")
        except HFValidationError as error:
            raise ValueError(f"repo={self.repo!r}: {error}") from None
        if self.create_pr and self.branch != "main":
            raise ValueError(f"create_pr with branch={self.branch}: a pull request is for main; leave one of both out.")
        if self.create_pr and (self.tag or self.collection):
            raise ValueError(
                "create_pr: what is only proposed gets no tag and no collection; publish it again with them."
            )
        if self.dataset and (self.zoo or self.names or self.base_licence):
            raise ValueError("dataset: --zoo, --names and --base_licence are for models; leave them out.")
        if not self.dataset and (self.languages or self.licence or self.report):
            raise ValueError(
                "--languages, --licence and --report are for --dataset; a model's are in its results.json."
            )
        if wrong := [name for name in self.names if not all(name.partition("="))]:
            raise ValueError(f"names: {wrong[0]!r} is not LOCAL=PUBLIC.")


def main(argv: list[str] | None = None) -> str | None:
    (args,) = parse_arguments((PublishArguments,), argv, prog="hfxling publish", description=__doc__)
    from hfxling.hub.release import Release, release

    common = {name: getattr(args, name) for name in ("branch", "create_pr", "private", "tag", "collection", "dry_run")}
    folder = Path(args.folder)
    if not folder.exists():
        raise FileNotFoundError(f"{folder}: no such file or folder; give what is to be published.")
    if args.dataset:
        from hfxling.hub.datasets import release_dataset

        about = {"languages": args.languages, "licence": args.licence, "report": args.report}
        return release_dataset(Release(folder, args.repo, message="Data with its card", **common), print, **about)
    repo = args.repo
    if args.zoo:
        from hfxling.hub.zoo import check_folder, entry

        named = entry(args.zoo)
        check_folder(named, folder)
        repo = repo or named.repo_id
    names = dict(name.split("=", 1) for name in args.names)
    return release(Release(folder, repo, names=names, base_licence=args.base_licence, **common), print)
