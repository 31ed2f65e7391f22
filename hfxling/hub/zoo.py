"""The zoo: one table of models, from which cards and the table of published models are made.

An entry is trained by its command, which runs for everybody: text and encoders are public, paths are of this repository
or made by the lines before. Where `model_cards/NAME.json`, the record of such a run, is there, the card has its
figures; where it is not, the card says that the model is yet to be trained, and has none.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from hfxling.data.licences import release_fault
from hfxling.data.sources import parse_pair

NAMESPACE = "hfxling"
GET_NTREX = (
    "git clone https://github.com/MicrosoftTranslator/NTREX",
    "git -C NTREX checkout --quiet 8561f6a622db9edad1217683e5c83daefd8bb2bf",
)
_NTREX_CODES = {"zh": "zho-CN", "vi": "vie", "lo": "lao", "th": "tha", "id": "ind"}
_NTREX = {"name": "NTREX-128", "licence": "cc-by-sa-4.0", "hub_id": "mteb/NTREX"}
_NTREX_TRAIN, _NTREX_TEST = "1-1543", "1544-1997"


@dataclass(frozen=True)
class Entry:
    """A model of the zoo.

    Attributes:
        name: of the repository, in the project's namespace.
        method: as its package under `hfxling.methods` is named.
        pairs: language pairs, as recipes take them.
        base: Hub id of the encoder; None where there is none.
        base_licence: of the encoder.
        licence: of the model.
        config: of the recipe, in `recipes/configs`.
        options: further words of the command.
        data: the training text, entries of `CardInfo.train_data`.
        before: shell lines that fetch what the command reads.
        cost: what training takes, for who runs the command.
    """

    name: str
    method: str
    pairs: Sequence[str]
    licence: str
    data: Sequence[Mapping]
    cost: str
    base: str | None = None
    base_licence: str | None = None
    config: str | None = None
    options: Sequence[str] = ()
    before: Sequence[str] = field(default_factory=tuple)

    @property
    def repo_id(self) -> str:
        """On the Hub."""
        return f"{NAMESPACE}/{self.name}"

    @property
    def languages(self) -> list[str]:
        """All, in the order of the pairs."""
        return list(dict.fromkeys(chain.from_iterable(map(parse_pair, self.pairs))))

    def words(self) -> list[str]:
        """The recipe's command line, without the recipe."""
        config = ["--config", f"recipes/configs/{self.config}"] if self.config else ["--pairs", *self.pairs]
        place = ["--hub_model_id", self.repo_id, "--output_dir", f"outputs/{self.name}"]
        return [*config, *self.options, *place]

    def command(self) -> str:
        """What trains it, for a reader's shell in a clone of this project."""
        return "\n".join([*self.before, shlex.join(["python", f"recipes/{self.method}.py", *self.words()])])

    def release_fault(self) -> str | None:
        """Why it may not be released; None where it may."""
        parts = {f"the text {data['name']!r}": data.get("licence") for data in self.data}
        if self.base:
            parts[f"the base model {self.base!r}"] = self.base_licence
        return release_fault(self.licence, parts)


def ntrex(pairs: Sequence[str], *more: str, data_licence: str = "cc-by-sa-4.0") -> dict:
    """The fields of an entry on NTREX: documents of lines 1 to 1543 for training, the others for the test."""
    has_several_pairs = len(pairs) > 1
    sources, data = [], []
    for pair in pairs:
        files = [f"NTREX/NTREX-128/newstest2019-ref.{_NTREX_CODES[code]}.txt" for code in pair.split("-")]
        sources.append((f"{pair}=" if has_several_pairs else "") + "+".join(files))
        data.append(_NTREX | {"pairs": 1543})
        if has_several_pairs:
            data[-1]["name"] = f"NTREX-128, {pair}"
    options = []
    for key, lines in (("train_data", _NTREX_TRAIN), ("test_data", _NTREX_TEST)):
        options += [f"--{key}", *(f"{source}@{lines}" for source in sources)]
    options += ["--data_name", "NTREX-128", "--data_licence", data_licence, *more]
    return {"pairs": pairs, "options": options, "data": data, "before": GET_NTREX, "licence": "cc-by-sa-4.0"}


def _siamese(name: str, base: str, base_licence: str, config: str, *more: str) -> Entry:
    options = {"base": base, "base_licence": base_licence, "config": f"siamese/{config}.yaml"}
    cost = "the encoder's pass over 4,000 sentences: minutes on a CPU, and its download"
    return Entry(name, "siamese", **ntrex(["zh-vi"], *more), cost=cost, **options)


_OPUS = "sentence-transformers/parallel-sentences-"
_DAP_DATA = []
for _part in ("europarl", "opensubtitles", "ccmatrix", "wikimatrix"):
    _set = f"{_OPUS}{_part}"
    _DAP_DATA.append({"name": _set, "pairs": "to 1,000,000 a language", "licence": "other", "hub_id": _set})
_DAP_DATA.append(
    {"name": "Helsinki-NLP/opus-100", "pairs": "to 1,000,000 a language", "hub_id": "Helsinki-NLP/opus-100"}
)
_DAP_PAIRS = (
    "af ar bn bg zh de el et eu fi fr he hi hu id it jv ja ka kk ko ml mr nl fa pt ru es sw ta te tl th tr ur vi"
)
_MEANING_PAIRS = [f"en-{code}" for code in ("it", "tr", "de", "es", "fr", "ar", "nl")]
_TATOEBA = f"{_OPUS}tatoeba"


def _dap(name: str, base: str, licence: str) -> Entry:
    config = f"dap/{name.removeprefix('dap-')}.yaml"
    fields = {"base": base, "base_licence": licence, "licence": "apache-2.0", "config": config}
    pairs = [f"{code}-en" for code in _DAP_PAIRS.split()]
    return Entry(name, "dap", pairs, data=_DAP_DATA, cost="100,000 steps of 1,024 pairs: days on 8 GPUs", **fields)


def _meaning(name: str, base: str | None, licence: str | None, config: str, cost: str) -> Entry:
    options = () if base is None else ("--train_data", f"{_TATOEBA}:en-{{target}}")
    data = [{"name": _TATOEBA, "pairs": "to 500,000 a language", "licence": "cc-by-2.0", "hub_id": _TATOEBA}]
    fields = {"base": base, "base_licence": licence, "config": f"disentangler/{config}.yaml", "licence": "cc-by-2.0"}
    tested = () if base is None else ("--sts", "", "--test_data", "Helsinki-NLP/opus-100:{pair}")
    options = (*options, "--data_licence", "cc-by-2.0", *tested)
    return Entry(name, "disentangler", _MEANING_PAIRS, data=data, options=options, cost=cost, **fields)


def _aligner(pair: str) -> Entry:
    fields = ntrex([pair], "--size", "500", "--prior", "true", "--cpu_seconds", "3600")
    return Entry(f"{pair}-aligner", "aligner", cost="an hour of one CPU core", **fields)


def _lexical(pair: str) -> Entry:
    return Entry(f"{pair}-lexical", "lexical", cost="a minute of one CPU core", **ntrex([pair]))


_FIVE = ("lo-zh", "id-zh", "vi-zh", "th-zh", "lo-th")
_MBERT = ("google-bert/bert-base-multilingual-cased", "apache-2.0")
_ENTRIES = (
    _siamese("zh-vi-sf", *_MBERT, "mbert_zh_vi"),
    _siamese("zh-vi-sf-xlm", "FacebookAI/xlm-mlm-100-1280", "cc-by-nc-4.0", "xlm_zh_vi"),
    _siamese("zh-vi-sf-xlmr", "FacebookAI/xlm-roberta-large", "mit", "xlmr_large_zh_vi"),
    _siamese("zh-vi-sf-mt5", "google/mt5-base", "apache-2.0", "mt5_zh_vi"),
    _siamese("zh-vi-sf-cca", *_MBERT, "mbert_zh_vi", "--fit", "cca", "--normalize_input", "true"),
    _dap("dap-mbert", *_MBERT),
    _dap("dap-xlmr", "FacebookAI/xlm-roberta-base", "mit"),
    _meaning("labse-meaning", "sentence-transformers/LaBSE", "apache-2.0", "labse_sts", "hours on a GPU"),
    _meaning("me5-meaning", "intfloat/multilingual-e5-large-instruct", "mit", "me5_sts", "hours on a GPU"),
    _meaning("qwen3-meaning", "Qwen/Qwen3-Embedding-8B", "apache-2.0", "qwen3_sts", "a day on a GPU of 24 GB"),
    _meaning("gemini-meaning", None, None, "gemini_sts", "vectors from the API, which the files named here hold"),
    *map(_aligner, _FIVE),
    *map(_lexical, _FIVE),
    Entry("five-lexical", "lexical", **ntrex(_FIVE), cost="a few minutes of one CPU core"),
)
ZOO = {entry.name: entry for entry in _ENTRIES}
