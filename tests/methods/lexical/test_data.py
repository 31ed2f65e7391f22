"""Links that are counted with an encoder's similarities of words."""

import json

import numpy as np
import pytest

import hfxling
from hfxling import fit_lexical, load_parallel
from hfxling.cli import main
from hfxling.data.corpus import Corpus
from hfxling.methods.lexical import LinkSettings, link_views, word_encoder
from hfxling.methods.lexical import data as lexical_data
from hfxling.methods.lexical.evaluate import rank

LANGUAGES = ("zh", "vi")
SETTINGS = LinkSettings(views=["fine"])


pytestmark = pytest.mark.usefixtures("small_sample")


@pytest.fixture(scope="module", autouse=True)
def few_letters():
    """The tiny encoder knows few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hfxling.words.encoder._MOST_UNKNOWN", 1.0)
        yield


def text(split: str, rows: slice) -> tuple[list[str], list[str]]:
    found = load_parallel("sample", *LANGUAGES, split=split)[rows]
    return found["source"], found["target"]


def corpus(pairs: int = 60) -> Corpus:
    return Corpus.in_memory({LANGUAGES: text("train", slice(pairs))})


def counts(encoder, pairs: int = 60, settings: LinkSettings = SETTINGS) -> np.ndarray:
    (view,) = link_views(corpus(pairs), settings, encoder)
    return view.counts[0].toarray()


class Oracle:
    """Similarities of a fixed kind, in the place of `segment_similarities`."""

    def __init__(self, likeness):
        self.likeness, self.read, self.means = likeness, [], {}

    def __call__(self, languages, vocabularies, encoder, source, target):
        self.read.append(len(source))
        rows = []
        for own_source, own_target in zip(source, target):
            shape = [len(voc.encode(line).ids) for voc, line in zip(vocabularies, (own_source, own_target))]
            rows.append(self.likeness(*shape))
        return rows


def test_equal_similarities_change_no_count(monkeypatch):
    alone = counts(None)
    for value in (0.0, 0.7):
        equal = Oracle(lambda s, t, value=value: np.full((s, t), value))
        monkeypatch.setattr(lexical_data, "segment_similarities", equal)
        np.testing.assert_allclose(counts(Oracle(None)), alone, rtol=1e-4, atol=1e-6)


def test_similar_words_are_counted_more_often(monkeypatch):
    """The first word of each side is made similar, whatever it is."""

    def first(s, t):
        similarity = np.zeros((s, t))
        similarity[0, 0] = 0.9
        return similarity

    (view,) = link_views(corpus(), SETTINGS)
    alone = view.counts[0].toarray()
    cells = {(source[0], target[0]) for source, target in zip(view.pairs[0].source, view.pairs[0].target)}
    rows, columns = np.array(sorted(cells)).T
    monkeypatch.setattr(lexical_data, "segment_similarities", Oracle(first))
    assert counts(Oracle(None))[rows, columns].sum() > 1.2 * alone[rows, columns].sum()


def test_the_encoder_reads_some_pairs_of_a_long_text_and_no_lexicon(monkeypatch, tmp_path):
    words = tmp_path / "words.tsv"
    words.write_text("司机\ttài xế\n房子\tnhà\n", encoding="utf-8")
    settings = LinkSettings(views=["fine"], lexicon=[f"zh-vi={words}"])
    alone = counts(None, settings=settings)
    oracle = Oracle(lambda s, t: np.zeros((s, t)))
    monkeypatch.setattr(lexical_data, "segment_similarities", oracle)
    monkeypatch.setattr("hfxling.words.joint.LEARN_FROM", 25)
    np.testing.assert_allclose(counts(Oracle(None), settings=settings), alone, rtol=1e-4, atol=1e-6)
    assert oracle.read == [25]


def test_all_text_is_read_once_for_views_and_folds(tiny_bert, monkeypatch):
    encoder = word_encoder(str(tiny_bert), None, corpus())
    lines = set(encoder.kept)
    assert lines == {*text("train", slice(60))[0], *text("train", slice(60))[1]}
    with monkeypatch.context() as patch:
        patch.setattr(encoder, "_read", None)  # nothing more is read
        again = counts(encoder)
    assert set(encoder.kept) == lines
    monkeypatch.setattr(lexical_data, "_MOST_KEPT", 10)
    bare = word_encoder(str(tiny_bert), None, corpus())
    assert not bare.kept
    np.testing.assert_allclose(counts(bare), again, rtol=1e-4, atol=1e-6)


def test_a_part_of_the_text_is_counted_alike_before_and_after_another(tiny_bert):
    encoder = word_encoder(str(tiny_bert), None, corpus())
    first = counts(encoder, 30)
    counts(encoder, 60)
    np.testing.assert_array_equal(counts(encoder, 30), first)


def test_what_is_made_does_without_the_encoder_and_says_who_helped(tiny_bert, tmp_path):
    model = fit_lexical(*text("train", slice(120)), LANGUAGES, model=str(tiny_bert), progress=False)
    folder = tmp_path / "model"
    hfxling.save_lexical(model, folder)
    held_out = text("test", slice(40))
    plain = fit_lexical(*text("train", slice(120)), LANGUAGES, progress=False)
    ranks = [ranking.ranks for ranking in rank(model, held_out, LANGUAGES)]
    assert any((own != other.ranks).any() for own, other in zip(ranks, rank(plain, held_out, LANGUAGES)))
    loaded = hfxling.LexicalModel.from_pretrained(folder)
    assert (loaded.encode(held_out[0], "zh") != model.encode(held_out[0], "zh")).nnz == 0
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert f"with the help of {tiny_bert.name}" in card
    assert str(tiny_bert) not in card
    configuration = json.loads((folder / "results.json").read_text(encoding="utf-8"))["card"]["configuration"]
    assert configuration["encoder"] == tiny_bert.name


def test_the_recipe_takes_an_encoder(tiny_bert, tmp_path):
    from hfxling.recipe import run_recipe

    words = ["--pairs", "zh-vi", "--train_data", "sample", "--max_train_pairs", "60", "--encoder", str(tiny_bert)]
    run_recipe("lexical", [*words, "--data_licence", "apache-2.0", "--output_dir", str(tmp_path / "run")])
    card = (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")
    assert f"with the help of {tiny_bert.name}" in card


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two line-aligned files."""
    folder = tmp_path_factory.mktemp("files")
    for lang, side in zip(LANGUAGES, text("train", slice(60))):
        (folder / f"my.{lang}").write_text("\n".join(side) + "\n", encoding="utf-8")
    return [str(folder / f"my.{lang}") for lang in LANGUAGES]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def selections(few_letters, files, tiny_bert, cache) -> dict:
    """What is found without the model's help with links, with it, and where nothing is said of it."""
    options = {"languages": LANGUAGES, "only": ["static", "sparse"], "model": str(tiny_bert), "output": None}
    return {
        asked: hfxling.select(*files, links_with_model=asked, cache_dir=str(cache), **options)
        for asked in (False, True, None)
    }


def test_fit_counts_with_the_model_where_it_is_asked_to(files, selections, tiny_bert, tmp_path, monkeypatch):
    options = {"languages": LANGUAGES, "only": ["static", "sparse"], "cache_dir": str(tmp_path / "cache")}
    model = str(tiny_bert)
    alone = selections[False]
    with monkeypatch.context() as patch:
        patch.setattr("hfxling.selection.candidates.Competitors.forget", lambda self: None)  # as if it were killed
        both = hfxling.select(*files, model=model, links_with_model=True, output=None, **options)
    own = [candidate.ranks for candidate in both.candidates if candidate.name == "sparse"]
    other = [candidate.ranks for candidate in alone.candidates if candidate.name == "sparse"]
    assert any((own[0][fold][0] != other[0][fold][0]).any() for fold in own[0])
    again = hfxling.select(*files, model=model, links_with_model=True, output=None, **options)
    assert "encoder" not in vars(again._fitted.competitors.links)  # what was counted is there: nothing is read again
    both.save(tmp_path / "out")
    record = json.loads((tmp_path / "out" / "model" / "results.json").read_text(encoding="utf-8"))
    assert record["card"]["configuration"]["encoder"] == model
    assert f"with the help of {tiny_bert.name}" in record["card"]["summary"]


def test_fit_tries_with_few_pairs_whether_the_model_helps(selections, cache):
    found = []
    for selection in selections.values():
        candidates = [selection.candidate(name) for name in ("static", "sparse")]
        found.append((candidates, sum(candidate.hits(folds=[0]).sum() for candidate in candidates)))
        assert [len(candidate.cpu_s) for candidate in candidates] == [5, 5]
    (alone, hits_alone), (helped, hits_helped), (tried, hits_tried) = found
    assert hits_tried == max(hits_alone, hits_helped)
    expected = helped if hits_helped > hits_alone else alone
    for one, other in zip(tried, expected):
        assert one.precision == other.precision
    assert not [*(cache / "links").iterdir()]


def test_the_recorded_command_asks_for_the_same_links(selections):
    for asked, word in ((False, "--no_links_with_model"), (True, "--links_with_model"), (None, None)):
        words = selections[asked]._fitted.command
        assert [each for each in words if "links_with_model" in each] == ([word] if word else [])
        assert not {"True", "False", "None"} & set(words)


def test_a_model_that_cannot_read_the_text_helps_nothing(files, selections, tiny_bert, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("hfxling.words.encoder._MOST_UNKNOWN", -1)
    options = {"languages": LANGUAGES, "only": ["sparse"], "cache_dir": str(tmp_path / "cache"), "output": None}
    found = hfxling.select(*files, model=str(tiny_bert), **options)
    assert "links are learnt without the model" in caplog.text
    assert found.candidate("sparse").precision == selections[False].candidate("sparse").precision


def test_an_encoder_that_does_not_know_one_of_the_scripts_is_refused(tiny_bert, monkeypatch):
    monkeypatch.setattr("hfxling.words.encoder._MOST_UNKNOWN", 0.5)
    with pytest.raises(ValueError, match="does not know the script of this text"):
        word_encoder(str(tiny_bert), None, corpus())


def test_what_cannot_help_is_refused(files, tiny_bert, tmp_path, capsys):
    with pytest.raises(ValueError, match="links_with_model needs an encoder: give a model, or leave it out"):
        hfxling.select(*files, languages=LANGUAGES, links_with_model=True, output=None)
    with pytest.raises(SystemExit):
        main(["fit", *files, "--languages", "zh", "vi", "--links_with_model", "--output", str(tmp_path / "out")])
    assert "needs an encoder" in capsys.readouterr().err
    with pytest.raises(FileNotFoundError):
        fit_lexical(*text("train", slice(20)), LANGUAGES, model=str(tmp_path / "nothing"), progress=False)
