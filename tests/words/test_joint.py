"""Links, an encoder, and both in one EM: what each finds alone, and what they find together."""

import json
import shutil

import numpy as np
import pytest
from planted_words import sentences
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Metaspace
from transformers import PreTrainedTokenizerFast

import hfxling
from hfxling.cli import main
from hfxling.data.pharaoh import read_links
from hfxling.data.segment import Span, Vocabulary
from hfxling.words import prior as link_prior
from hfxling.words.aligner import membership, units_of, words
from hfxling.words.encoder import WordEncoder, similarities
from hfxling.words.joint import JointAligner, View, segment_similarities, view_segmenters, word_map
from hfxling.words.links import agreement, attention, softmax_links
from hfxling.words.pairs import EncodedPairs
from hfxling.words.prior import LinkPrior, posteriors_of
from hfxling.words.probability import THRESHOLDS, link_evidence, link_probability
from hfxling.words.sources import agreed_layer


@pytest.fixture(scope="module")
def encoder(tiny_bert) -> WordEncoder:
    return WordEncoder(str(tiny_bert), layer=0)


def test_attention_is_a_softmax_of_each_direction_whatever_the_padding():
    rng = np.random.default_rng(0)
    similarity = rng.uniform(-1, 1, (2, 4, 5))
    sizes = np.array([[4, 5], [2, 3]])
    forward, backward = attention(similarity, sizes, 0.1)
    for row, (s, t) in enumerate(sizes):
        powers = np.exp(similarity[row, :s, :t] / 0.1)
        np.testing.assert_allclose(forward[row, :s, :t], powers / powers.sum(0, keepdims=True), rtol=1e-6)
        np.testing.assert_allclose(backward[row, :s, :t], powers / powers.sum(1, keepdims=True), rtol=1e-6)
    assert forward[1, 2:].sum() == forward[1, :, 3:].sum() == backward[1, 2:].sum() == 0
    linked = softmax_links(similarity, sizes)
    assert linked.any()
    assert not linked[1, 2:].any()


def test_an_encoder_multiplies_every_emission():
    """By the equation at the head of prior.py, for one pair by hand."""
    similarity = np.array([[0.9, 0.1, 0.2], [0.3, 0.8, 0.1]])
    sides = (np.array([[5, 6, -1]]), np.array([[7, 8, 9]]))
    forward, backward = link_prior.encoder_factors(np.array([0]), [sides, sides[::-1]], [similarity])
    powers = np.exp(similarity / link_prior.TEMPERATURE)
    floor, weight = link_prior.FLOOR, link_prior.WEIGHT
    expected = (floor + (1 - floor) * 2 * powers / powers.sum(0, keepdims=True)) ** weight
    np.testing.assert_allclose(forward[0, :, :2], expected.T, rtol=1e-5)
    expected = (floor + (1 - floor) * 3 * powers / powers.sum(1, keepdims=True)) ** weight
    np.testing.assert_allclose(backward[0, :2], expected, rtol=1e-5)


def test_similarities_link_words_that_never_come_again_and_the_text_those_that_do():
    """Words 4..9 come again and again, in changing places; 20 and 21 once, in one sentence, the other way round."""
    rng = np.random.default_rng(1)
    source = [rng.permutation(np.arange(4, 10))[:4].tolist() for _ in range(60)]
    target = [row[::-1] for row in source]
    source.append([4, 20, 5, 21])
    target.append([21, 4, 20, 5])
    likeness = [np.zeros((4, 4)) for _ in source]
    likeness[-1][1, 2] = likeness[-1][3, 0] = 0.5
    pairs = EncodedPairs(("lo", "zh"), source, target)
    classes = [np.arange(30) + 1] * 2
    agreeing, _ = LinkPrior.learn(pairs, classes, similarities=likeness)
    ((forward, backward),) = posteriors_of([agreeing], source[-1:], target[-1:], likeness[-1:])[0]
    linked = {(int(i), int(j)) for i, j in np.argwhere((forward + backward) / 2 > 0.5)}
    assert {(0, 1), (1, 2), (3, 0)} <= linked <= {(0, 1), (1, 2), (2, 3), (3, 0)}
    (alone,) = LinkPrior.learn(pairs, classes, agree=[True], similarities=likeness)
    np.testing.assert_array_equal(alone.tables[0].probability, agreeing.tables[0].probability)


def test_translations_are_likelier_than_other_sentences():
    source, target = sentences(60)
    aligner = JointAligner.learn(("en", "zh"), source, target)
    view = aligner.views[0]
    ids = []
    for vocabulary, side in zip(view.vocabularies, (source, target)):
        ids.append([row.ids for row in vocabulary.encode_batch(side)])
    matched, shifted = aligner.log_likelihoods(source, target), aligner.log_likelihoods(source, target[1:] + target[:1])
    assert (matched > shifted).mean() > 0.9
    right = view.priors[0].log_likelihoods(*ids)
    wrong = view.priors[0].log_likelihoods(ids[0], ids[1][1:] + ids[1][:1])
    assert (right > wrong).mean() > 0.9
    assert view.priors[0].log_likelihoods([[]], [[5]])[0] == -np.inf


def test_evidence_is_the_same_either_way_round_and_does_not_depend_on_padding():
    rng = np.random.default_rng(2)
    weights = [(rng.random((1, 3, 5)), rng.random((1, 3, 5))) for _ in range(3)]
    there = np.stack(link_evidence(weights, 2, np.array([[3, 5]])), axis=-1)
    turned = [(backward.swapaxes(1, 2), forward.swapaxes(1, 2)) for forward, backward in weights]
    back = np.stack(link_evidence(turned, 2, np.array([[5, 3]])), axis=-1)
    np.testing.assert_allclose(back.swapaxes(1, 2), there)
    padded = [tuple(np.pad(matrix, ((0, 0), (0, 2), (0, 1))) for matrix in directions) for directions in weights]
    probability = link_probability("links and encoder", padded, 2, np.array([[3, 5]]))
    alone = link_probability("links and encoder", weights, 2, np.array([[3, 5]]))
    np.testing.assert_allclose(probability[:, :3, :5], alone)
    assert probability[:, 3:].sum() == probability[:, :, 5:].sum() == 0


def test_units_have_the_means_of_their_pieces_and_zero_without_any(encoder):
    line = "ab c"
    units = [Span("ab", 0, 2), Span("c", 3, 4), Span("", 4, 4)]
    ((vectors,),) = encoder([line], [[units]])
    (pieces,) = [states for _, _, states in encoder.pieces([line])]
    pieces = pieces / np.linalg.norm(pieces, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors[0], pieces[:2].mean(0), atol=1e-6)
    np.testing.assert_allclose(vectors[1], pieces[3], atol=1e-6)
    assert not vectors[2].any()
    (similarity,) = similarities([vectors], [vectors])
    assert similarity.shape == (3, 3)
    assert similarity[0, 0] == pytest.approx(1)
    assert not similarity[2].any()


def test_texts_beyond_the_limit_are_read_in_windows(encoder):
    line = "dog eats rice " * 40
    assert len(line) > 5 * encoder.limit
    units = words(line)
    ((vectors,),) = encoder([line], [[units]])
    assert len(vectors) == 120
    assert vectors.any(1).all()
    options = {"languages": ("en", "fr"), "learn": False, "symmetrize": "argmax"}
    rows = hfxling.align_words([line], [line], model=encoder.name, **options)
    assert len(rows.pairs[0].source) == 120
    assert rows.links[0]


def test_links_encoder_and_both(tiny_bert, tmp_path, capsys):
    source, target = sentences(60)
    target = [line[::-1] for line in source]
    options = {"languages": ("en", "fr"), "layer": 0}
    both = hfxling.align_words(source, target, model=str(tiny_bert), **options)
    alone = hfxling.align_words(source, target, model=str(tiny_bert), learn=False, **options)
    assert both.links != alone.links
    expected = []
    for line in source:
        size = len(line.split())
        expected.append({(i, size - 1 - i) for i in range(size)})
    right = sum(len({*links} & gold) for links, gold in zip(both.links, expected))
    assert right > 0.5 * sum(map(len, expected))
    for method in ("argmax", "itermax", "softmax"):
        compared = hfxling.align_words(source, target, model=str(tiny_bert), learn=False, symmetrize=method, **options)
        assert compared.method == method
        assert any(compared.links)
    back = hfxling.align_words(target, source, model=str(tiny_bert), languages=("fr", "en"), layer=0)
    assert back.links == [sorted((j, i) for i, j in links) for links in both.links]
    few = JointAligner.learn(("en", "fr"), source, target, WordEncoder(str(tiny_bert), layer=0))
    assert [line.links for line in few(source, target, batch_size=1)] == both.links
    for name, side in (("s", source), ("t", target)):
        (tmp_path / name).write_text("\n".join(side) + "\n", encoding="utf-8")
    argv = [str(tmp_path / "s"), str(tmp_path / "t"), "--languages", "en", "fr", "--model", str(tiny_bert)]
    main(["align", *argv, "--layer", "0", "--output", str(tmp_path / "l.txt"), "--with_scores"])
    capsys.readouterr()
    assert [sorted(links) for links, _ in read_links(tmp_path / "l.txt")] == both.links
    first = (tmp_path / "l.txt").read_text().split("\n")[0].split()
    assert all(0.5 <= float(link.partition(":")[2]) <= 1 for link in first)
    assert [link.partition(":")[0] for link in first] == [f"{i}-{j}" for i, j in both.links[0]]


def test_of_a_long_text_links_are_learnt_from_pairs_of_all_its_parts(tiny_bert, monkeypatch):
    source, target = sentences(60)
    source[-20:] = [f"{line} last" for line in source[-20:]]
    monkeypatch.setattr("hfxling.words.joint.LEARN_FROM", 20)
    aligner = JointAligner.learn(("en", "fr"), source, target, WordEncoder(str(tiny_bert), layer=0))
    known, *_ = aligner.views[0].vocabularies[0].encode("last").ids
    assert aligner.views[0].vocabularies[0].encode("never").ids != [known]


def test_a_loaded_model_is_read_at_its_layer(tiny_sentence_transformer):
    source, _ = sentences(30)
    model = SentenceTransformer(str(tiny_sentence_transformer))
    loaded = hfxling.align_words(source, source, languages=("en", "fr"), model=model, layer=1)
    named = hfxling.align_words(
        source, source, languages=("en", "fr"), model=str(tiny_sentence_transformer), layer=1, prompt=""
    )
    assert loaded.links == named.links


def test_links_of_a_lexical_model_beside_an_encoder(tiny_bert):
    rows = hfxling.load_parallel("sample", "en", "id")
    sample = list(rows["source"])[:60], list(rows["target"])[:60]
    lexical = hfxling.fit_lexical(*sample, ("en", "id"), rank=32, progress=False)
    alone = hfxling.align_words(*sample, links=lexical, units="segments")
    together = hfxling.align_words(*sample, links=lexical, model=str(tiny_bert), units="segments", learn=False)
    assert alone.links != together.links
    letters = hfxling.align_words(*sample, links=lexical, units="characters")
    assert all(len(span.text) == 1 for span in letters.pairs[0].source)
    assert any(letters.links)


def test_the_encoder_that_links_were_learnt_with_is_heeded(tiny_bert, tmp_path, caplog):
    rows = hfxling.load_parallel("sample", "en", "id")
    sample = list(rows["source"])[:60], list(rows["target"])[:60]
    cached = tmp_path / "models--org--encoder" / "snapshots" / ("0" * 40)
    shutil.copytree(tiny_bert, cached)
    options = {"rank": 8, "progress": False}
    lexical = hfxling.fit_lexical(*sample, ("en", "id"), model=str(cached), revision="main", **options)
    assert (lexical.config.encoder, lexical.config.encoder_revision) == ("org/encoder", "main")
    hfxling.save_lexical(lexical, tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "with the help of org/encoder. Vectors of sentences do without it; `hfxling align` heeds it" in card
    with pytest.raises(FileNotFoundError, match="model='org/encoder' is neither"):
        hfxling.align_words(*sample, links=tmp_path / "model")
    with_a_path = hfxling.fit_lexical(*sample, ("en", "id"), model=str(tiny_bert), **options)
    assert with_a_path.config.encoder is None

    units = {"units": "segments"}
    alone = hfxling.align_words(*sample, links=lexical, encoder_of_links=False, **units)
    beside = hfxling.align_words(*sample, links=with_a_path, model=str(tiny_bert), layer=0, **units)
    lexical.config.encoder, lexical.config.encoder_revision = str(tiny_bert), None
    with caplog.at_level("INFO"):
        heeded = hfxling.align_words(*sample, links=lexical, layer=0, **units)
    assert heeded.scores == beside.scores != alone.scores
    assert f"links in memory: {tiny_bert}, which its links were learnt with, is used, too" in caplog.messages


def test_tables_and_lines_of_json(tmp_path):
    source, target = sentences(30)
    hfxling.align_words(source, target, languages=("en", "zh"), output=tmp_path / "links.tsv")
    rows = [line.split("\t") for line in (tmp_path / "links.tsv").read_text().splitlines()]
    assert rows[0] == ["pair", "i", "j", "source", "target", "score"]
    assert rows[1][:3] == ["1", "0", "0"]
    result = hfxling.align_words(source, target, languages=("en", "zh"), output=tmp_path / "links.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "links.jsonl").read_text().splitlines()]
    assert [[tuple(link["link"]) for link in line["links"]] for line in lines] == result.links


def test_a_segment_belongs_to_every_unit_that_starts_in_it():
    segments = [Span("ab", 0, 2), Span("cd", 2, 4)]
    letters = [Span(letter, i, i + 1) for i, letter in enumerate("abcd")]
    assert membership(letters, segments).tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
    assert membership([Span("abcd", 0, 4)], segments).tolist() == [[1, 1]]


def test_views_are_words_and_pieces_and_one_where_both_are_the_same():
    assert view_segmenters(("en", "zh")) == [("words", "unigram"), ("unigram", "characters")]
    assert view_segmenters(("lo", "th")) == [("unigram", "unigram")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learn": False}, "learn=False leaves nothing to align by"),
        ({"layer": 3}, "layer and prompt are for an encoder; give one as the model"),
        ({"model": "BERT", "layer": 9}, r"layer=9 is outside hidden_states 0\.\.3"),
        ({"model": "BERT", "learn": False, "units": "segments"}, "an encoder alone has none"),
        ({"links": "BERT"}, "no aligner|another kind|is no|cannot be read"),
    ],
)
def test_mistakes_are_told_in_a_line(tiny_bert, options, message):
    options = {name: str(tiny_bert) if value == "BERT" else value for name, value in options.items()}
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        hfxling.align_words(["a b"], ["c d"], languages=("en", "fr"), **options)


def test_a_script_that_the_encoder_does_not_know_is_refused(tiny_bert):
    with pytest.raises(ValueError, match=r"does not know the script of this text: .* give another model, or none"):
        hfxling.align_words(["ນ້ຳຝົນ"], ["rain"], languages=("lo", "en"), model=str(tiny_bert), learn=False)


def test_a_tokenizer_that_does_not_say_where_pieces_stand_is_refused(tiny_sentence_transformer, monkeypatch):
    model = SentenceTransformer(str(tiny_sentence_transformer), device="cpu")
    monkeypatch.setattr(type(model.tokenizer), "is_fast", False)
    with pytest.raises(ValueError, match="does not say where its pieces are; give a model with a fast tokenizer"):
        WordEncoder(model, layer=1)


def test_lines_that_are_too_long_or_empty_have_no_links(tiny_bert, caplog):
    source = ["dog eats rice", "", "dog " * 2001]
    rows = hfxling.align_words(
        [*source, "dog"], ["rice eats dog", "dog", "dog", ""], languages=("en", "fr"), model=str(tiny_bert), learn=False
    )
    assert [len(links) > 0 for links in rows.links] == [True, False, False, False]
    assert "a line of 2001 units gets no links" in caplog.text


def test_segments_are_compared_by_vectors_that_first_links_have_mapped(encoder, monkeypatch):
    source, _ = sentences(40)
    target = [" ".join(reversed(line.split())) for line in source]
    vocabularies = [Vocabulary.learn(side, "en", segmenter="words") for side in (source, target)]
    given = ("en", "fr"), vocabularies, encoder, source, target
    mapped = segment_similarities(*given)
    assert not encoder.kept
    monkeypatch.setattr("hfxling.words.joint.learn_map", lambda *_: None)
    plain = segment_similarities(*given)
    spans = [[row.spans for row in of.encode_batch(side)] for of, side in zip(vocabularies, (source, target))]
    vectors = encoder(source, [spans[0]], "en")[0], encoder(target, [spans[1]], "fr")[0]
    for own, without, expected in zip(mapped, plain, similarities(*vectors)):
        np.testing.assert_array_equal(without, expected)
        assert own.shape == expected.shape
    assert max(np.abs(own - without).max() for own, without in zip(mapped, plain)) > 0.05


def test_the_map_takes_off_what_linked_words_differ_by():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(500, 6))
    noise = np.zeros((500, 6))
    noise[:, 0] = 2 * rng.normal(size=500)
    mapped = word_map(shared + noise, shared - noise)
    np.testing.assert_allclose(mapped, mapped.T, atol=1e-5)
    strength = np.linalg.norm(mapped, axis=0)
    assert strength[0] < 0.6 * strength[1:].min()
    np.testing.assert_allclose(strength[1:], strength[1:].mean(), rtol=0.1)


def test_layers_are_read_in_one_pass_and_the_one_that_agrees_most_is_taken(tiny_bert):
    source, _ = sentences(40)
    target = [line[::-1] for line in source]
    encoder = WordEncoder(str(tiny_bert), layer=3)
    for layer, pieces in zip((1, 3), encoder.pieces_of_layers(source, (1, 3))):
        alone = WordEncoder(str(tiny_bert), layer=layer)
        for row, places, vectors in alone.pieces(source):
            np.testing.assert_array_equal(places, pieces[source[row]][0])
            np.testing.assert_allclose(vectors, pieces[source[row]][1], atol=1e-5)
    scores = {}
    for layer in (1, 2, 3):
        aligner = JointAligner(("en", "fr"), [], WordEncoder(str(tiny_bert), layer=layer))
        scores[layer] = agreement(line.soft for line in aligner(source, target))
    best = max(scores, key=scores.get)
    chosen = agreed_layer(WordEncoder(str(tiny_bert), layer=3), ("en", "fr"), source, target, units="words")
    assert chosen == best
    options = {"languages": ("en", "fr"), "model": str(tiny_bert), "learn": False}
    found = hfxling.align_words(source, target, layer="agreement", **options)
    assert found.links == hfxling.align_words(source, target, layer=best, **options).links
    with pytest.raises(ValueError, match="give a number from 0, or agreement"):
        hfxling.align_words(source, target, layer="last", **options)


def test_links_are_those_of_the_least_probability_of_their_kind(encoder):
    source, _ = sentences(30)
    links = JointAligner.learn(("en", "fr"), source, source)
    saved = JointAligner(("en", "fr"), [View(view.vocabularies, view.priors[:1]) for view in links.views])
    kinds = [links, saved, JointAligner(("en", "fr"), [], encoder)]
    for aligner in kinds:
        for line in aligner(source, source):
            expected = line.probability[0] > THRESHOLDS[aligner.kind]
            assert line.links == [(int(i), int(j)) for i, j in np.argwhere(expected)]


def test_a_word_without_a_link_has_a_probability_of_that(tmp_path):
    source, target = sentences(30)
    result = hfxling.align_words(source, target, languages=("en", "zh"), output=tmp_path / "spans.jsonl")
    record = json.loads((tmp_path / "spans.jsonl").read_text().splitlines()[0])
    for name, units, side in (("source_null", "source", 0), ("target_null", "target", 1)):
        assert len(record[name]) == len(record[units])
        assert all(0 <= share <= 1 for share in record[name])
        linked = {link["link"][side] for link in record["links"]}
        for number, share in enumerate(record[name]):
            assert number not in linked or share < 0.5
    np.testing.assert_allclose(record["source_null"], result.pairs[0].source_null, atol=1e-4)


def test_what_nobody_sees_in_a_word_changes_no_vector(tiny_bert, tiny_sentence_transformer):
    model = SentenceTransformer(str(tiny_sentence_transformer), device="cpu")
    marked, plain = "a\u00adpple tr\u2060ee", "apple tree"
    for encoder in (WordEncoder(str(tiny_bert), layer=1), WordEncoder(model, layer=1)):
        vectors = {}
        for row, places, states in encoder.pieces([marked, plain]):
            assert places.max() == len([marked, plain][row])
            vectors[row] = states
        np.testing.assert_array_equal(vectors[0], vectors[1])
    assert model.tokenizer.backend_tokenizer.normalizer is None  # the model's own is as it was


def test_the_first_word_has_its_piece_behind_a_prompt(tiny_bert):
    """A piece of SentencePiece begins with the space before its word, and that one stands in the prompt."""
    pieces = Tokenizer(WordLevel({"[PAD]": 0, "[UNK]": 1, "▁query:": 2, "▁Ab": 3, "▁cd": 4}, unk_token="[UNK]"))
    pieces.pre_tokenizer = Metaspace()
    encoder = WordEncoder(str(tiny_bert), layer=0, prompt="query: ")
    encoder.tokenizer = PreTrainedTokenizerFast(tokenizer_object=pieces, pad_token="[PAD]", unk_token="[UNK]")
    ((_, places, vectors),) = encoder.pieces(["Ab cd"])
    assert places.tolist() == [[0, 2], [2, 5]]
    assert len(vectors) == 2


def test_marks_belong_to_the_letter_that_they_stand_on():
    line = "ที่ บ\u200be\u0323\u0302"
    spans = units_of(line, [], "characters")
    assert [span.text for span in spans] == ["ที่", "บ\u200b", "e\u0323\u0302"]
    assert [line[span.start : span.end] for span in spans] == [span.text for span in spans]


def test_the_command_prints_scores_where_it_is_asked_for_them(tmp_path, capsys):
    rows = hfxling.load_parallel("sample", "zh", "vi").select(range(30))
    for name, lines in (("zh", rows["source"]), ("vi", rows["target"])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    argv = ["align", str(tmp_path / "zh"), str(tmp_path / "vi"), "--languages", "zh", "vi"]
    main([*argv, "--with_scores"])
    scored = capsys.readouterr().out.splitlines()
    main(argv)
    plain = capsys.readouterr().out.splitlines()
    assert [" ".join(link.partition(":")[0] for link in line.split()) for line in scored] == plain
    assert any(":0." in line for line in scored)
