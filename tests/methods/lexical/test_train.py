"""From link counts to an encoder: links through a shared language, lexicons, rounds of the length prior."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from hfxling import fit_lexical, load_parallel
from hfxling.data.filters import count_words
from hfxling.evaluation.retrieval import gold_ranks
from hfxling.methods.lexical.arguments import LexicalArguments, LinkSettings
from hfxling.methods.lexical.data import View, prepare, read_distractors, read_lexicon, segmenter_of
from hfxling.methods.lexical.evaluate import cross_validated, rank
from hfxling.methods.lexical.train import fit, length_prior, set_scales, view_links
from hfxling.words.pairs import EncodedPairs


def texts(pair, rows=slice(60)):
    found = load_parallel("sample", *pair, split="train")[rows]
    return found["source"], found["target"]


class Words:
    """A vocabulary of so many words."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size


def test_links_through_a_shared_language_are_sums_over_its_words():
    rng = np.random.default_rng(0)
    counts = {("vi", "zh"): rng.random((6, 7)) * 9, ("zh", "lo"): rng.random((7, 5)) * 9}
    sizes, ids = {"vi": 6, "zh": 7, "lo": 5}, {"vi": [4, 5, 5], "zh": [4, 5, 6], "lo": [4, 4, 4]}
    pairs = [EncodedPairs(pair, [ids[pair[0]]], [ids[pair[1]]]) for pair in counts]
    view = View(
        {lang: Words(size) for lang, size in sizes.items()}, False, pairs, [csr_array(c) for c in counts.values()]
    )
    links = view_links(view, 0.0)
    assert set(links) == {(x, y) for x in sizes for y in sizes if x != y}
    through = [counts[pair] / (counts[pair].sum(1, keepdims=True) + 1) for pair in counts]
    background = np.array([1, 1, 1, 1, 1 + 3]) / 8
    for s in range(4, 6):
        expected = sum(through[0][s, z] * through[1][z, 4] for z in range(7)) / background[4]
        assert links["vi", "lo"].toarray()[s, 4] == pytest.approx(expected, rel=1e-6)
    assert links["vi", "lo"][:4].nnz == 0


def test_links_through_several_languages_are_their_mean():
    rng = np.random.default_rng(1)
    ways = [("vi", "zh"), ("zh", "lo"), ("vi", "th"), ("th", "lo")]

    def links(pairs):
        languages = {lang for pair in pairs for lang in pair}
        text = [EncodedPairs(pair, [[4, 5, 5]], [[4, 5, 5]]) for pair in pairs]
        given = [csr_array(counts[pair]) for pair in pairs]
        return view_links(View({lang: Words(6) for lang in languages}, False, text, given), 0.0)["vi", "lo"].toarray()

    counts = {pair: rng.random((6, 6)) * 9 for pair in ways}
    # P(t|s) over a background that counts both ways' text: 2 + 4 words of 4 and 5, 5, seen twice, and one more of each
    single = np.array([1, 1, 1, 1, 2, 3]) / 9
    double = np.array([1, 1, 1, 1, 3, 5]) / 12
    expected = (links(ways[:2]) + links(ways[2:])) / 2 * (single / double)
    np.testing.assert_allclose(links(ways), expected, rtol=1e-6)


def test_a_pair_without_text_is_found_through_the_third_language():
    parts = {("vi", "zh"): slice(0, 250), ("lo", "zh"): slice(250, 500)}
    model = fit_lexical({pair: texts(pair, rows) for pair, rows in parts.items()}, views=["fine"], rank=8)
    held_out = load_parallel("sample", "vi", "lo", split="test")[:100]
    scores = model.encode(held_out["source"], "vi") @ model.encode(held_out["target"], "lo", "document").T
    found = scores.toarray().argmax(1) == np.arange(100)
    assert found.mean() > 0.5


def test_length_means_explain_every_pair():
    lines = {("vi", "zh"): texts(("vi", "zh")), ("lo", "zh"): texts(("lo", "zh")), ("lo", "vi"): texts(("lo", "vi"))}
    model = fit_lexical(lines, views=["fine"], rank=8)
    for pair, sides in lines.items():
        lengths = [
            np.array([len(model.tokenizers[lang][0].encode(t).ids) for t in side]) for lang, side in zip(pair, sides)
        ]
        mean = model.config.length_means[pair[1]] - model.config.length_means[pair[0]]
        assert np.log(lengths[1] / lengths[0]).mean() == pytest.approx(mean, abs=0.02)


def test_the_spread_of_lengths_is_that_of_their_ratio_about_its_mean():
    source, target = texts(("zh", "vi"), slice(200))
    model = fit_lexical(source, target, ("zh", "vi"), views=["fine"], rank=4)
    counts = [[count_words(text, lang) for text in side] for side, lang in ((source, "zh"), (target, "vi"))]
    assert 0 < model.config.length_sigma < np.log(np.divide(*counts)).std() * 2
    assert model.config.length_sigma != 1.0


class Linked:
    """A model whose links of either direction are a matrix of ones times a number."""

    def __init__(self, size, forward, backward):
        self.config, self.numbers, self.size = SimpleNamespace(), {("zh", "vi"): forward, ("vi", "zh"): backward}, size

    def _linked(self, shares, source, target, view):
        return csr_array(shares.sum(1)[:, None] * np.full((1, self.size), self.numbers[source, target]))


def test_the_length_prior_is_as_wide_as_what_is_no_translation_scores():
    rng = np.random.default_rng(0)
    own = [csr_array(rng.random((6, 4))) for _ in range(2)]
    bags = [{lang: SimpleNamespace(lengths=np.ones(6), shares=[side]) for lang, side in zip(("zh", "vi"), own)}]
    model = Linked(4, 2.0, 3.0)
    set_scales(model, bags, LinkSettings(views=["fine"], view_weights=[0.5], length_prior=0.3))
    left, right = (side.toarray().sum(1) for side in own)
    others = (0.5 * (2 + 3) * np.outer(left, right))[~np.eye(6, dtype=bool)]
    assert model.config.length_scale == pytest.approx(0.3 * others.std())
    linked = np.mean([2 * left.mean(), 3 * right.mean()])
    assert model.config.balance == pytest.approx(np.sqrt(linked / np.mean([side.data.mean() for side in own])))


@pytest.mark.parametrize("view", ["fine", "coarse"])  # in one tokenizer, and in one each
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_lexicon_adds_links(tmp_path, is_turned, view):
    source, target = texts(("zh", "vi"))
    entries = [("龘龘", "khủng khiếp"), ("今天", "hôm nay"), ("下雨", "mưa")]
    lines = ("\t".join(entry[::-1] if is_turned else entry) for entry in entries)
    (tmp_path / "words.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    lexicon = f"{'vi-zh' if is_turned else 'zh-vi'}={tmp_path / 'words.tsv'}"
    plain, more = (
        fit_lexical(source, target, ("zh", "vi"), rank=4, views=[view], **given)
        for given in ({}, {"lexicon": [lexicon]})
    )
    pair = ["我看到龘龘。"], ["Tôi thấy khủng khiếp."]
    found = [
        [term for term in model.explain(pair[0][0], pair[1][0], ("zh", "vi")) if "龘" in term.source]
        for model in (plain, more)
    ]
    assert not found[0]
    assert found[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"languages": ("zh", "zh")}, "are both 'zh'"),
        ({"source": ["你好"] * 9, "target": ["chào"] * 9}, "at least ten"),
        ({"source": ["你好"] * 9 + [" "]}, r"source\[9\] is ' '"),
        ({"languages": None}, "give the codes of both languages"),
        ({"source": {}, "target": None, "languages": None}, "source names no language pair"),
        ({"views": ["letters"]}, "views=.* give at least one of fine, coarse, characters"),
        ({"view_weights": [1.0]}, "give one weight for each of views"),
        ({"segmenters": ["lo=words"]}, "one of characters, unigram, words, whitespace for one of zh, vi"),
        ({"lexicon": ["lo-zh=words.tsv"]}, "not among the text's pairs, zh-vi"),
        ({"lexicon": ["words.tsv"]}, "words.tsv: no such dictionary"),
        ({"mixture": 0.0}, "mixture=0.0 must be more than 0"),
        ({"mixture": math.nan}, "mixture=nan must be more than 0"),
        ({"hub_weight": math.nan}, "hub_weight=nan: give 0 or more"),
        ({"rank": 0}, "rank=0: give 1 or more"),
        (
            {"min_ratio": 1000.0},
            "zh-vi: no segments of the view 'fine' are linked with a ratio of min_ratio=1000 or more",
        ),
        ({"mixtur": 3.0}, "the nearest known one is 'mixture'"),
        ({"folds": 2}, "unknown option 'folds'"),
    ],
)
def test_what_a_user_can_get_wrong(change, message):
    given = {"source": ["你好"] * 10, "target": ["chào bạn"] * 10, "languages": ("zh", "vi")} | change
    with pytest.raises((ValueError, FileNotFoundError), match=message) as error:
        fit_lexical(**given)
    assert "\n" not in str(error.value)


def test_further_views_count_half():
    assert LinkSettings(views=["coarse", "fine"]).view_weights == [1.0, 0.5]
    with pytest.raises(ValueError, match=r"view_weights=\[1.0, 0.0\]: give weights above 0"):
        LinkSettings(views=["coarse", "fine"], view_weights=[1.0, 0.0])


def test_both_languages_may_have_distractors():
    recipe = LexicalArguments(train_data=["sample"], pairs=["zh-vi"], folds=2, distractors=["zh=a", "vi=b"])
    assert recipe.distractor_files() == {"zh": "a", "vi": "b"}


def test_lengths_vary_around_the_means_of_their_languages():
    rng = np.random.default_rng(0)
    lengths = [
        {"zh": rng.integers(3, 9, 40), "vi": rng.integers(5, 20, 40)},
        {"zh": rng.integers(3, 9, 90), "lo": rng.integers(20, 50, 90)},
    ]
    pairs = []
    for pair in lengths:
        pairs.append({lang: SimpleNamespace(lengths=counts) for lang, counts in pair.items()})
    alone = length_prior(pairs[:1], ["zh", "vi"])
    for lang, counts in lengths[0].items():
        assert alone["length_means"][lang] == pytest.approx(np.log(counts).mean())
    assert alone["length_sigma"] == pytest.approx(np.log(lengths[0]["vi"] / lengths[0]["zh"]).std())
    means = length_prior(pairs, ["zh", "vi", "lo"])["length_means"]
    residuals = [np.log(counts) - means[lang] for pair in lengths for lang, counts in pair.items()]
    assert np.concatenate(residuals).mean() == pytest.approx(0)
    assert means["lo"] - means["zh"] == pytest.approx(np.log(lengths[1]["lo"] / lengths[1]["zh"]).mean())


def test_the_scale_of_several_pairs_is_that_of_one():
    one = fit_lexical(*texts(("zh", "vi")), languages=("zh", "vi"), views=["fine"])
    two = fit_lexical({("zh", "vi"): texts(("zh", "vi")), ("zh", "lo"): texts(("zh", "lo"))}, views=["fine"])
    assert two.config.length_scale == pytest.approx(one.config.length_scale, rel=0.3)


def test_without_hub_weight_no_sentence_is_remembered():
    none = {"zh": [0, 0], "vi": [0, 0]}
    model = fit_lexical(*texts(("zh", "vi")), languages=("zh", "vi"), views=["fine"], hub_weight=0)
    assert model.config.anchors == none


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"folds": 1}, "folds=1, .*give 2 folds or more"),
        ({"distractors": ["zh=x.txt"]}, "folds=0, distractors.*give 2 folds or more"),
        ({"folds": 2, "distractors": ["lo=x.txt"]}, "at most one file for each of zh, vi"),
        ({"folds": 2, "distractors": ["zh=a", "zh=b"]}, "zh is given twice"),
    ],
)
def test_folds_that_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        LexicalArguments(pairs=["zh-vi"], train_data=["sample"], **change)


@pytest.mark.parametrize(
    ("lang", "fine", "coarse"),
    [
        ("zh", ("characters", 4000), ("unigram", 4000)),
        ("lo", ("unigram", 2000), ("unigram", 4000)),
        ("vi", ("words", 4000), ("unigram", 4000)),
        ("id", ("unigram", 4000), ("words", 4000)),
    ],
)
def test_both_views_cut_every_language_in_another_way(lang, fine, coarse):
    assert (segmenter_of("fine", lang), segmenter_of("coarse", lang)) == (fine, coarse)
    assert segmenter_of("characters", lang)[0] == "characters"


def test_folds_are_ranked_by_models_that_did_not_see_them(tmp_path):
    others = tmp_path / "more.zh"
    others.write_text("我爱你。\n我爱你。\n\n他走了。\n", encoding="utf-8")
    pairs, folds = texts(("zh", "vi")), 3
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(*pairs)), encoding="utf-8")
    args = LexicalArguments(
        pairs=["zh-vi"], train_data=[str(tmp_path / "pairs.tsv")], folds=folds, distractors=[f"zh={others}"], rank=8
    )
    prepared = prepare([args])
    assert set(prepared.cost) == {"train_seconds", "train_cpu_s"}
    assert prepared.distractors == {"zh": ["我爱你。", "他走了。"]}
    held = [pair for fold in prepared.folds for pair in fold.corpus.pairs[0].test["source"]]
    assert held == list(prepared.corpus.pairs[0].train["source"])
    for fold in prepared.folds:
        (text,) = fold.corpus.pairs
        assert not {*text.test["source"]} & {*text.train["source"]}
    models = [fit(fold.views, args) for fold in prepared.folds]
    rows = cross_validated(models, [fold.corpus for fold in prepared.folds], prepared.distractors, seed=0)
    found = {(row.dataset.endswith("+ 2"), row.direction, row.settings["method"], row.metric): row for row in rows}
    assert len(found) == len(rows) == 2 * (4 + 2)  # two metrics; both ways, and one way among the distractors
    assert {row.n for row in rows} == {60}
    first, *_ = prepared.folds
    (text,) = first.corpus.pairs
    sides = list(text.test["source"]), list(text.test["target"])
    queries, documents = models[0].encode(sides[0], "zh"), models[0].encode(sides[1], "vi", "document")
    alone = gold_ranks(queries, documents, method="dot")[0]
    np.testing.assert_array_equal(rank(models[0], sides, ("zh", "vi"))[0].ranks, alone)
    more = rank(models[0], sides, ("zh", "vi"), prepared.distractors)
    assert {ranking.direction for ranking in more} == {"vi->zh"}


@pytest.mark.parametrize(("word", "is_refused"), [("今天龘鱻麤", True), ("今天下龘鱻", False)])
def test_half_of_a_lexicons_letters_are_in_the_text(tmp_path, word, is_refused):
    (tmp_path / "words.tsv").write_text(f"{word}\tmưa\n", encoding="utf-8")
    asked = ("zh", "vi"), str(tmp_path / "words.tsv"), {("zh", "vi"): (["今天下雨"], ["hôm nay mưa"])}
    if is_refused:
        with pytest.raises(ValueError, match="most letters of words such as '今天龘鱻麤' never occur in the zh text"):
            read_lexicon(*asked)
    else:
        assert read_lexicon(*asked) == ([word], ["mưa"])


@pytest.mark.parametrize("segmenters", [[], ["vi=words"]])
def test_languages_share_a_tokenizer_unless_segmenters_are_chosen(segmenters):
    model = fit_lexical(*texts(("zh", "vi")), ("zh", "vi"), rank=4, views=["fine"], segmenters=segmenters)
    first, second = (model.tokenizers[lang][0].to_str() for lang in ("zh", "vi"))
    assert (first == second) == (not segmenters)


def test_of_which_pair_a_lexicon_is():
    one = {"pairs": ["zh-vi"], "train_data": ["sample"]}
    pairs = [("zh", "vi")]
    assert LexicalArguments(**one, lexicon=["w.tsv"]).lexicon_files(pairs) == {("zh", "vi"): "w.tsv"}
    assert LexicalArguments(**one, lexicon=["vi-zh=w.tsv"]).lexicon_files(pairs) == {("vi", "zh"): "w.tsv"}
    with pytest.raises(ValueError, match="which of zh-vi, zh-th is it for"):
        LexicalArguments(**one | {"pairs": ["zh-vi", "zh-th"]}, lexicon=["w.tsv"])


def test_a_lexicon_of_other_languages_is_refused(tmp_path):
    (tmp_path / "words.tsv").write_text("ຝົນ\tmưa\n", encoding="utf-8")
    with pytest.raises(ValueError, match="most letters of words such as 'ຝົນ' never occur in the zh text"):
        fit_lexical(*texts(("zh", "vi")), ("zh", "vi"), lexicon=[f"zh-vi={tmp_path / 'words.tsv'}"])


def test_a_file_of_distractors_without_a_sentence_is_refused(tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(ValueError, match=r"empty.txt: no sentence in it"):
        read_distractors(str(tmp_path / "empty.txt"))
