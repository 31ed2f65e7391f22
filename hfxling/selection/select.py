"""From sentence pairs to the best model for them."""

from __future__ import annotations

import inspect
import logging
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from hfxling.data.corpus import Corpus, corpus_of, load_corpus
from hfxling.data.licences import check_licence
from hfxling.data.pairs import IN_MEMORY, Pairs, is_source, joined_source, read_pairs
from hfxling.data.sources import name_of_pair
from hfxling.encoders.identity import json_of, model_name, modules_of, needs_code, read_json
from hfxling.encoders.pooling import pooled_by
from hfxling.encoders.protocol import languages_of
from hfxling.evaluation.results import EvalResult, format_table, read_results
from hfxling.evaluation.retrieval import before_after_results, hits_at
from hfxling.evaluation.significance import share_interval
from hfxling.files import check_place, check_replaceable, uninterrupted
from hfxling.hub.record import RECORD
from hfxling.hub.upload import check_repo_id
from hfxling.missing import one_line_where_missing
from hfxling.values import check_seed
from hfxling.verbs import CacheFolder, Languages, OutputFolder, Result, Text, verb

# The competitors and their methods load torch, so they are imported only where they are needed.
if TYPE_CHECKING:
    from transformers import TrainingArguments

    from hfxling.encoders.dense import SentenceEncoder
    from hfxling.methods.publishing import Run

    from .candidates import Candidate, Competitors, Finetuning, Head, Links, Ranks, TrainingText

logger = logging.getLogger(__name__)
# In the order of what they demand of their users: of two that are equally good the earlier one is taken.
Name = Literal["centred", "head", "static", "finetuned", "layers", "sparse", "fused", "finetuned_fused"]
NAMES: tuple[str, ...] = get_args(Name)
ON_THE_ENCODER = ("centred", "head", "finetuned", "layers", "fused", "finetuned_fused")
FOLDS = 5
_LEAST_PAIRS = 13  # without the largest of five folds ten are left, the fewest that links are learnt from
MOST = 10_000  # pairs up to which all are left out in turn; of more pairs, one fold of HELD_OUT in BLOCKS blocks
HELD_OUT = 2_000
BLOCKS = 10


@dataclass(repr=False)
class Selection(Result):
    """What competed, and what won.

    Attributes:
        languages: language codes of source and target.
        candidates: all that competed, with their cross-validated scores.
        winner: what `save` writes: the simplest of those that found about as many pairs as the best one, or the one
            that was asked for.
        best: the candidate that found most pairs.
        text: the pairs that everything learns from.
        folds: for each fold the numbers of the pairs that were left out together.
        chosen: whether the winner was asked for.
        tested: ranks of the translations in the test text, both ways, by the model that was written last and by the
            encoder as it came; {} without a test text.
        written: the candidate that was written last.
        folders: its folders: "folder" of the model, "lexical" of its links if it has any.
        use: a command that uses these folders.
    """

    languages: Languages
    candidates: list[Candidate]
    winner: Candidate
    best: Candidate
    text: TrainingText
    folds: list[np.ndarray]
    chosen: bool = False
    folders: dict[str, Path] = field(default_factory=dict)
    tested: dict[str, Ranks] = field(default_factory=dict)
    use: str = ""
    written: Candidate | None = None
    _fitted: _Fitted = field(kw_only=True, repr=False)

    def candidate(self, name: str) -> Candidate:
        """The candidate of that name.

        Raises:
            ValueError: nothing of that name competed.
        """
        for candidate in self.candidates:
            if candidate.name == name:
                return candidate
        raise ValueError(f"{name!r} did not compete; there are {', '.join(each.name for each in self.candidates)}.")

    def table(self) -> str:
        """One line for each candidate, with its P@1 on left-out pairs; then what was written and how to use it."""
        rows = []
        for candidate in self.candidates:
            low, high = candidate.interval
            scores = [f"{candidate.precision:.1f}", f"{low:.1f} to {high:.1f}"]
            there, back = candidate.hits(0), candidate.hits(1)
            ways = [f"{there.mean():.1f}", f"{back.mean():.1f}", len(there)]
            cost = [f"{np.mean(candidate.cpu_s):.1f}", f"{candidate.megabytes:.1f}", candidate.needs]
            rows.append([candidate.name, *scores, *ways, *cost])
        forward, backward = "->".join(self.languages), "->".join(self.languages[::-1])
        held = sum(len(fold) for fold in self.folds)
        left_out = f"{held} pairs left out, {BLOCKS} times {held // BLOCKS} neighbouring lines, which are together"
        if len(self.folds) > 1:
            folds = f"{len(self.folds)} folds of {len(self.folds[0])} neighbouring lines"
            left_out = f"{held} pairs left out in turn, in {folds}, which are"
        lines = [
            format_table(["", "P@1", "95 %", forward, backward, "pairs", "CPU s", "MB", "needs"], rows),
            f"{left_out} the candidates; P@1 in %, both ways",
        ]
        for name, ranks in self.tested.items():
            hits = [hits_at(way, 1) for way in ranks]
            low, high = share_interval(np.mean(hits, axis=0))
            ways = f"{forward} {hits[0].mean():.1f}, {backward} {hits[1].mean():.1f} ({low:.1f} to {high:.1f} for both)"
            lines.append(f"test, {len(hits[0])} pairs, {name}: {ways}")
        finetuning = self._fitted.competitors.finetuning
        if finetuning is not None and finetuning.candidate.left_out:
            lines.append(f"finetuned does not compete: {finetuning.candidate.left_out}")
        encoder = self._fitted.competitors.encoder
        if encoder is not None:
            lead = encoder.candidate.lead(self.winner)
            if not _may_be_chance(lead):
                lines.append(f"the encoder as it is finds {lead.mean():.1f} % more than {self.winner.name}: use that")
        lines.append("")
        if not self.folders:
            lines.append(f"{self.winner.name}{self._reason()}; nothing is written yet")
            return "\n".join(lines)
        written = self.written
        reason = self._reason() if written is self.winner else ", as asked for"
        lines.append(f"{written.name}{reason}, is written:")
        for folder in dict.fromkeys(self.folders.values()):
            lines.append(f"model folder: {folder}")
        lines.append(f"use it: {self.use}")
        if written.needs_language:
            lines.append(
                "it needs to know the language of each text; for programs that cannot say it, fit with --one_map"
            )
        return "\n".join(lines)

    def _reason(self) -> str:
        """Why the winner was taken."""
        if self.winner is self.best:
            return ", the best that may be chosen"
        if not self.winner.lead(self.best).any():
            return f", which finds what {self.best.name} finds"
        lead = self.best.lead(self.winner).mean()
        if self.chosen:
            return f", as asked for ({self.best.name} finds {lead:+.1f} %)"
        return f", the simplest that is as good as {self.best.name} ({lead:+.1f} %, which may be chance)"

    def save(self, folder: str | Path, name: str | None = None) -> dict[str, Path]:
        """Write the winner, fitted on all pairs, with its card: FOLDER/model and, if fused, FOLDER/lexical/model.

        Args:
            folder: folder to write into. It may hold other files; FOLDER/model is replaced.
            name: name of another candidate to write in place of the winner.

        Returns:
            The folder of the model as "folder", that of its links as "lexical" if it has any.

        Raises:
            ValueError: a folder that holds other files or the inputs; a candidate that cannot be written.
        """
        folder = Path(folder).expanduser()
        candidate = self.winner if name is None else self.candidate(name)
        if candidate.name not in NAMES:
            raise ValueError(f"{candidate.name!r} is the model that was given; write one of {', '.join(NAMES)}.")
        check_place("folder", folder, is_folder=True)
        _check_folders(folder, self._fitted.inputs)
        self.folders = self._write(candidate, folder)
        self.written = candidate
        if "lexical" not in self.folders:
            _remove_links_of_before(folder / "lexical" / "model")
        self.use = how_to_use(candidate, self.folders)
        if self._fitted.test is not None:
            self.tested = self._test(candidate)
        self._fitted.competitors.forget()
        return self.folders

    def _test(self, candidate: Candidate) -> dict[str, Ranks]:
        """Test what was written and the encoder as it came, and add the results to the record and the card."""
        from hfxling.hub.folder import rewrite_record
        from hfxling.methods.tested import ENTRY, HeldOutTest

        fitted = self._fitted
        test = HeldOutTest(candidate.name, fitted.encoder, fitted.test, self.languages, fitted.device)
        model, lexical = self.folders["folder"], self.folders.get("lexical")
        ranks = test.rank(model, lexical)
        rows = test.results(ranks, seed=fitted.training_args.seed)
        for folder in {model, lexical} - {None}:  # of static and sparse vectors both are one folder
            entry = test.entry(fitted.test_source)
            if folder != model:
                entry["kind"] = None  # its links were tested only together with the model
            with uninterrupted():
                rewrite_record(folder, [*read_results(folder / RECORD), *rows], {ENTRY: entry})
        return ranks

    def _write(self, candidate: Candidate, folder: Path) -> dict[str, Path]:
        competitors = self._fitted.competitors
        links = competitors.links
        if candidate.name in ("static", "sparse"):
            model_folder = self._publish(links, links.fit_all(), candidate, folder)
            return {"folder": model_folder, "lexical": model_folder}
        if candidate.name in ("centred", "head", "layers", "finetuned"):
            dense = competitors.heads.get(candidate.name, competitors.finetuning)
            return {"folder": self._publish(dense, dense.fit_all(), candidate, folder)}

        fused = competitors.fused if candidate.name == "fused" else competitors.finetuned_fused
        lexical_folder = self._publish(links, links.fit_all(), candidate, folder / "lexical")
        run = fused.dense.fit_all()
        run = replace(run, write=fused.writer(run.write, lexical_folder))
        return {"folder": self._publish(fused.dense, run, candidate, folder), "lexical": lexical_folder}

    def _publish(self, learner: Head | Finetuning | Links, run: Run, candidate: Candidate, folder: Path) -> Path:
        """Write FOLDER/model as the method's recipe does, with the scores of the contest."""
        from hfxling.methods.heads import replace_arguments
        from hfxling.methods.publishing import COSTS, publish_run

        competed = {each.name: round(each.precision, 2) for each in self.candidates}
        reached = {name: value for name, value in run.reached.items() if name not in COSTS}  # the same bytes every time
        run = replace(run, results=self.results(candidate), reached=reached, extra=run.extra | {"competed": competed})
        fitted = self._fitted
        repository = fitted.training_args.hub_model_id
        if repository and learner.method == "lexical" and candidate.name not in ("static", "sparse"):
            repository += "-lexical"  # the dense model beside it has the name itself
        training_args = replace_arguments(learner.training_args, output_dir=str(folder), hub_model_id=repository)
        publish_run(
            learner.method, learner.recipe, training_args, learner.prepared, run, command=fitted.command, shown=False
        )
        return folder / "model"

    def results(self, candidate: Candidate) -> list[EvalResult]:
        """P@1 of a candidate on left-out pairs and, if there is one, of the encoder before it."""
        fitted = self._fitted
        encoder = fitted.competitors.encoder
        measured = [candidate] if encoder is None else [encoder.candidate, candidate]
        folds = list(candidate.ranks)
        in_folds = "1 fold" if len(folds) == 1 else f"{len(folds)} folds"
        return before_after_results(
            {each.name: (each.hits(0, folds), each.hits(1, folds)) for each in measured},
            self.languages,
            dataset=self.text.corpus.name,
            revision=self.text.corpus.pairs[0].revision("train"),
            seed=fitted.training_args.seed,
            split=f"training pairs, left out in {in_folds} of neighbours",
            model=fitted.model,
            settings={"candidates": len(self.folds[0])},
        )


@dataclass
class _Fitted:
    """What `Selection.save` needs besides the scores."""

    competitors: Competitors
    training_args: TrainingArguments
    inputs: list[Any]  # what was read
    model: str  # as results call it
    command: list[str]  # as the card records it
    test: Pairs | None
    test_source: str | None  # where the test text was read; None for texts in memory
    encoder: dict[str, Any]  # arguments of `load_encoder` for the encoder as it came; {} without one
    device: str | None


@verb
def select(
    source: Text,
    target: Text | None = None,
    *,
    languages: Languages,
    model: str | Path | None = None,
    revision: str | None = None,
    pooling: Literal["mean", "cls", "last"] | None = None,
    prompt: str | None = None,
    links_with_model: bool | None = None,
    one_map: bool = False,
    only: Sequence[Name] = (),
    choose: Name | None = None,
    minutes: float = 15,
    test: list[str] | None = None,
    output: OutputFolder | None = "outputs/fit",
    repo: str | None = None,
    licence: str | None = None,
    seed: int = 42,
    device: str | None = None,
    cache_dir: CacheFolder = "outputs/features",
    trust_remote_code: bool = False,
    progress: bool = True,
) -> Selection:
    """Find the best model for your sentence pairs.

    Several models learn from the pairs and compete, and the winner is written. A lexical model, in its sparse and its
    static form, needs nothing but the pairs. If you give an encoder as the model, its vectors compete, too (as they
    are, centred, and with a head), and so does the sum of both scores. All scores are cross-validated: they are
    measured on pairs that were left out of learning.

    Example:
        >>> found = hfxling.select("my.zh", "my.vi", languages=("zh", "vi"), output=None)
        >>> print(found.table())
        >>> found.save("outputs/zh-vi")

    Args:
        source: source text, a file or sentences in memory; or one source of both sides, as in the recipes (TSV, CSV,
            JSONL, Parquet, Hub id, sample; @1-1543 picks lines, #1,0 columns).
        target: the translations, line by line; leave it out if the source holds both sides.
        languages: language codes of source and target.
        model: folder or Hub id of an encoder that competes, of any kind that sentence-transformers or transformers
            loads, static embeddings included; by default none. Of static embeddings, and of models that bring their own
            code, only the sentence vectors are used.
        revision: branch, tag or commit of the model on the Hub.
        pooling: how the encoder's tokens are pooled: mean, cls or last; by default its own pooling.
        prompt: text put before every sentence; by default what the model wants ("query: " for E5), "" for none.
        links_with_model: let the model's vectors of words in context help to learn word links. With few pairs, static
            and sparse vectors then find far more; with 1,500 a little more; each fold takes a minute longer. By default
            tried with up to 500 pairs, and used if more of the first fold is found.
        one_map: choose only among models that need not know the language of a text.
        only: names of what competes, together with the parts it is made of; by default everything.
        choose: name of the candidate that is written, in place of the winner.
        test: pairs that nothing learns from, as two files or one source (in Python also two lists). The model that is
            written and the encoder as it came are tested on them. Training pairs that are among them are left out.
        minutes: time for everything that competes. If it is short, fine-tuning takes fewer epochs; what would still
            take longer is left out, with a warning that says how many minutes it needs.
        output: folder that is written; with None, in Python, nothing is written until `save` of the result is called.
        repo: name of the repository in the card, org/name.
        licence: licence of the pairs, for the card.
        seed: random seed of folds and fits.
        device: device for the encoder, such as cpu or cuda; by default a GPU if there is one.
        cache_dir: folder for the encoder's vectors. What is fitted is kept there, too, until all is done, so that a run
            that was stopped continues.
        trust_remote_code: allow the code in the model's repository to run.
        progress: show progress bars.

    Returns:
        Everything that competed with its P@1, the winner, and the folders that were written.

    Raises:
        ValueError: fewer than 13 pairs, options that do not go together, a model folder that holds other files, or
            malformed text.
        FileNotFoundError: a file or model that does not exist.
    """
    languages = tuple(languages)
    _check(languages, only, choose, minutes, repo, seed)
    _check_model(model, (choose, *only), links_with_model=links_with_model)
    check_licence("licence", licence)
    read = None  # where the text is; None for sentences in memory
    if is_source(source) and (target is None or is_source(target)):
        read = joined_source(source, target)
    inputs = [read, str(source), str(target), model] if read else [model]
    inputs += test or ()
    if output is not None:
        _check_folders(Path(output), inputs)
    from hfxling.methods import lexical, siamese
    from hfxling.methods.dap.finetune import finetuning as dap_options

    from .candidates import Clock, Competitors, Finetuning, Fused, TrainingText, make_heads, make_links

    clock = Clock(minutes)
    is_transformer = has_layers(model, revision)
    given = {
        "model": model,
        "revision": revision,
        "pooling": pooling,
        "prompt": prompt,
        "links_with_model": links_with_model,
        "one_map": one_map,
        "only": only,
        "choose": choose,
        "minutes": minutes,
        "test": _shown_test(test),
        "output": output,
        "repo": repo,
        "licence": licence,
        "seed": seed,
        "trust_remote_code": trust_remote_code,
    }
    command = _command([source, target] if read else ["SOURCE", "TARGET"], languages, given)
    if model is not None and not is_transformer:
        _check_vectors_suffice(model, (choose, *only), pooling=pooling, links_with_model=links_with_model)
    pooling, whole = _pooling_of(
        model,
        revision,
        pooling,
        has_layers=is_transformer,
        prompt=prompt,
        device=device,
        trust_remote_code=trust_remote_code,
    )

    named = {
        "pairs": [name_of_pair(languages)],
        "train_data": [read or IN_MEMORY],
        "test_data": [],
        "data_licence": licence,
    }
    links_args = lexical.Arguments(**named)
    corpus = load_corpus(links_args) if read else corpus_of(links_args, read_pairs(source, target, languages))
    test_pairs, test_source = _read_test(test, languages, corpus) if test else (None, None)
    text = TrainingText(corpus)
    if len(text) < _LEAST_PAIRS:
        raise ValueError(f"{read or IN_MEMORY}: {len(text)} pairs are too few; give {_LEAST_PAIRS} or more.")
    folds = _folds(len(text))
    wanted = {*only} or {*NAMES}
    with TemporaryDirectory(prefix="hfxling-") as folder:  # the Trainer wants one
        training_args = _training_arguments(folder, seed, repo, device)
        competitors = Competitors()
        if wanted & {"static", "sparse", "fused", "finetuned_fused"}:
            competitors.links_in_every_fold = bool(wanted & {"static", "sparse", "fused"})
            competitors.links = make_links(
                links_args,
                text,
                {"encoder": str(model) if is_transformer else None, "encoder_revision": revision},
                links_with_model,
                folds[0],
                training_args=training_args,
                cache_dir=Path(cache_dir, "links"),
                prompt=prompt,
                device=device,
            )
        if model is not None and wanted & {*ON_THE_ENCODER}:
            single = siamese.Arguments(
                **named,
                base_model=str(model),
                base_revision=revision,
                pooling=pooling,
                prompt=prompt,
                max_length=_own_limit(str(model), revision) if is_transformer else None,
                layer="last",
                one_map=one_map,
                cache_dir=str(cache_dir),
            )
            competitors.encoder, competitors.heads = make_heads(
                single, wanted, training_args, text, device, whole=whole, has_layers=is_transformer
            )
            if "fused" in wanted:
                competitors.fuse_heads()
        if is_transformer and wanted & {"finetuned", "finetuned_fused"}:
            recipe = dap_options(
                str(model), **named, revision=revision, pooling=pooling, prompt=prompt, cache_dir=str(cache_dir)
            )
            competitors.finetuning = Finetuning(recipe, text, clock, seed, device, Path(cache_dir, "finetuned"))
            if "finetuned_fused" in wanted:
                competitors.finetuned_fused = Fused("finetuned_fused", competitors.finetuning, competitors.links)
        competitors.compete(folds, len(text))

    candidates = competitors.candidates()
    able = eligible(candidates, choose, one_map)
    best = most_precise(able)
    winner = simplest_of(able, best) if choose is None else next(each for each in able if each.name == choose)
    called = "links" if model is None else model_name(str(model))
    came = {"model": model, "revision": revision, "prompt": prompt, "trust_remote_code": trust_remote_code}
    encoder = {} if model is None else came
    fitted = _Fitted(competitors, training_args, inputs, called, command, test_pairs, test_source, encoder, device)
    selection = Selection(languages, candidates, winner, best, text, folds, chosen=choose is not None, _fitted=fitted)
    if output is None:
        competitors.forget()
    else:
        selection.save(output)
    return selection


def how_to_use(candidate: Candidate, folders: dict[str, Path]) -> str:
    """A command that uses what was written."""
    words = ["hfxling nearest", '"..."', "--candidates FILE"]
    if candidate.name != "sparse":
        words.append(f"--model {shlex.quote(str(folders['folder']))}")
    if candidate.name in ("sparse", "fused", "finetuned_fused"):
        words.append(f"--lexical {shlex.quote(str(folders['lexical']))}")
    if candidate.name != "sparse" and candidate.needs_remote_code:
        words.append("--trust_remote_code true")
    return " ".join(words)


def _shown_test(test: Sequence[Any] | None) -> list[str]:
    """The test text as the card records it."""
    return [str(side) if is_source(side) else "TEXTS" for side in test or ()]


def _read_test(test: Sequence[Any], languages: Languages, corpus: Corpus) -> tuple[Pairs, str | None]:
    """The test text and where it was read (None: in memory); training pairs that it contains are left out."""
    from hfxling.methods.tested import leave_out, read_test

    if isinstance(test, str | Path) or len(test) > 2:
        raise ValueError(f"test={test!r}: give one source of both sides in a list, or both sides.")
    pairs = read_test(test, languages)
    leaks = leave_out(corpus, pairs)
    if leaks:
        logger.warning("%d training pairs are in the test text, and are left out", leaks)
    source = None
    if is_source(test[0]):
        source = joined_source(test[0], test[1] if len(test) == 2 else None)
    return pairs, source


def _check(
    languages: tuple, only: Sequence[str], choose: str | None, minutes: float, repo: str | None, seed: int
) -> None:
    """Refuse options that do not go together."""
    if not minutes > 0:
        raise ValueError(f"minutes={minutes}: give more than 0.")
    check_seed(seed)
    if repo is not None:
        check_repo_id("repo", repo)
    languages_of(None, languages)  # refuses what is no language
    if choose is not None and only and choose not in only:
        raise ValueError(f"choose={choose!r} does not compete, as only={list(only)} leaves it out; name it there, too.")


def _check_model(model: Any, asked: Sequence[str | None], *, links_with_model: bool | None) -> None:
    """Refuse a model that cannot compete, and names in `asked` that need a model if there is none."""
    if model is not None and not isinstance(model, str | Path):
        raise ValueError(
            f"model: a loaded {type(model).__name__} cannot compete, as every candidate loads the encoder anew; give "
            "its folder or Hub id, or map its vectors by hfxling.fit_head."
        )
    for name in asked:
        if name in ON_THE_ENCODER and model is None:
            raise ValueError(f"{name!r} needs an encoder: give a model, or take static or sparse.")
    if links_with_model and model is None:
        raise ValueError("links_with_model needs an encoder: give a model, or leave it out.")


def has_layers(model: Any, revision: str | None) -> bool:
    """Whether a model's layers are read; a model that cannot compete or be loaded is refused before any text is read.

    Of static embeddings and the like, and of models with their own code, only the sentence vectors are read.
    """
    from hfxling.encoders.sparse import is_sparse

    if model is None:
        return False
    if is_sparse(model, revision):
        raise ValueError(f"model={str(model)!r} has sparse vectors; give an encoder with dense ones.")
    modules = modules_of(str(model), revision)
    if modules and not str(modules[0].get("type", "")).endswith(".Transformer"):
        return False
    if needs_code(str(model), revision):
        return False
    if json_of(str(model), "adapter_config.json", revision) and not json_of(str(model), "config.json", revision):
        raise ValueError(
            f"model={str(model)!r} holds a LoRA adapter alone: merge it into its encoder (merge_and_unload of peft), "
            "save that with its tokenizer, and name its folder."
        )
    from transformers import AutoConfig

    with one_line_where_missing(str(model), "model"):
        AutoConfig.from_pretrained(str(model), trust_remote_code=False, revision=revision)
    return True


def _check_vectors_suffice(
    model: Any, asked: Sequence[str | None], *, pooling: str | None, links_with_model: bool | None
) -> None:
    """Refuse options that read layers if the model's layers are not read."""
    wanted = {name: name in asked for name in ("layers", "finetuned", "finetuned_fused")}
    wanted |= {"pooling": pooling is not None, "links_with_model": bool(links_with_model)}
    for name, is_wanted in wanted.items():
        if is_wanted:
            raise ValueError(
                f"{name}: {str(model)!r} is no transformer or brings its own code, so only sentence vectors are read; "
                "leave it out."
            )


def _pooling_of(
    model: Any, revision: str | None, given: str | None, *, has_layers: bool, **options: str | bool | None
) -> tuple[str, SentenceEncoder | None]:
    """How the encoder's tokens are pooled, and the encoder itself if it does more than pool them."""
    from hfxling.encoders.dense import SentenceEncoder
    from hfxling.methods.appended import check_has_no_routes

    if model is None or given is not None:
        return given or "mean", None
    pooled = pooled_by(str(model), revision)
    if has_layers and not pooled.further:
        return pooled.mode, None
    whole = SentenceEncoder(str(model), revision, **options)
    check_has_no_routes(whole.model)
    return pooled.mode, whole


def _remove_links_of_before(folder: Path) -> None:
    """Remove links that an earlier contest wrote beside the model: they would be taken for the new model's."""
    if "competed" in read_json(folder / RECORD):
        shutil.rmtree(folder)
        logger.info("%s: the links of the model that was there before are removed", folder)


def _own_limit(model: str, revision: str | None) -> int | None:
    """Number of tokens that sentence-transformers keeps of a text for the encoder; None if it does not say."""
    limit = json_of(model, "sentence_bert_config.json", revision).get("max_seq_length")
    return limit if isinstance(limit, int) and limit > 2 else None


def _check_folders(folder: Path, inputs: Sequence[Any]) -> None:
    for name in ("model", "lexical/model"):
        check_replaceable(folder / name, inputs)


def _folds(count: int) -> list[np.ndarray]:
    """The rows that are left out together: neighbours, because sentences of one document help each other.

    If the lines were shuffled before, the folds are as good as random ones.
    """
    rows = np.arange(count)
    if count <= MOST:
        return np.array_split(rows, FOLDS)
    # Blocks from all of the text: large files often hold several kinds of text, one after another.
    size = HELD_OUT // BLOCKS
    return [np.concatenate([part[-size:] for part in np.array_split(rows, BLOCKS)])]


def _training_arguments(folder: str, seed: int, repo: str | None, device: str | None) -> TrainingArguments:
    import torch
    from transformers import TrainingArguments

    from hfxling.methods import siamese

    settings = siamese.TRAINING_DEFAULTS | {
        "output_dir": folder,
        "seed": seed,
        "save_strategy": "no",
        "disable_tqdm": True,
        "dataloader_pin_memory": torch.cuda.is_available(),
        "hub_model_id": repo,
        "use_cpu": device == "cpu",
    }
    return TrainingArguments(**settings)


def eligible(candidates: Sequence[Candidate], choose: str | None, one_map: bool) -> list[Candidate]:
    """The candidates that may be written, the simplest first."""
    able = {}
    for candidate in candidates:
        if candidate.name in NAMES and not (one_map and candidate.needs_language):
            able[candidate.name] = candidate
    if not able or (choose is not None and choose not in able):
        raise ValueError(_refusal(choose, candidates, list(able)))

    def demands(candidate: Candidate) -> tuple:
        needs = candidate.needs_hfxling, candidate.needs_remote_code, candidate.needs_language
        return *needs, NAMES.index(candidate.name)

    return sorted(able.values(), key=demands)


def _refusal(choose: str | None, candidates: Sequence[Candidate], able: Sequence[str]) -> str:
    """Why nothing, or not the candidate that was asked for, can be written, and what to do."""
    competed = [candidate.name for candidate in candidates if candidate.name in NAMES]
    if competed and (choose is None or choose in competed):
        reason = "with one_map=True only models are taken that need not know the language of a text"
        remedy = "leave out --one_map"
    elif choose == "layers":
        reason = "no set of several layers was better than one layer"
        remedy = "leave out --choose"
    else:
        reason = "there was no time for fine-tuning"
        remedy = "give more --minutes"
    wish = "nothing can be chosen" if choose is None else f"choose={choose!r} is not possible"
    if able:
        remedy = f"choose one of {', '.join(able)}, or {remedy}"
    return f"{wish}: {reason}; {remedy}."


def most_precise(able: Sequence[Candidate]) -> Candidate:
    """The candidate that found most pairs; two are compared on the pairs that both were tested on."""
    best = able[0]
    for candidate in able[1:]:
        if candidate.lead(best).mean() > 0:
            best = candidate
    return best


def simplest_of(able: Sequence[Candidate], best: Candidate) -> Candidate:
    """The simplest candidate whose gap to the best may be chance: its paired 95 % interval contains 0."""
    for candidate in able:
        if _may_be_chance(best.lead(candidate)):
            return candidate
    return best


def _may_be_chance(lead: np.ndarray) -> bool:
    """Whether the 95 % interval of a mean reaches down to 0."""
    return bool(lead.mean() <= 1.96 * lead.std() / np.sqrt(len(lead)))


def _command(sources: Sequence[Any], languages: Languages, options: dict[str, Any]) -> list[str]:
    """The command that does the same, for the card; options at their defaults are left out."""
    words = ["hfxling", "fit", *(str(source) for source in sources if source is not None), "--languages", *languages]
    parameters = inspect.signature(select).parameters
    for name, value in options.items():
        if value is None or str(value) == str(parameters[name].default) or value in ((), []):
            continue
        words.append(f"--no_{name}" if value is False else f"--{name}")
        if isinstance(value, list | tuple):
            words += value
        elif not isinstance(value, bool):
            words.append(str(value))
    return words
