"""The sample grammar: its lexicon, splits and links."""

import csv
import random
import re
import time
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from sample_grammar import grammar
from sample_grammar.grammar import CAPACITY, LANGUAGES, TEMPLATES, generate, lexicon
from sample_grammar.rules import RULES

from hfxling.data.sample import dictionary

SCRIPTS = {
    "en": "A-Za-z",
    "zh": "\u4e00-\u9fff",
    "vi": "A-Za-z\u00c0-\u024f\u1e00-\u1eff",
    "th": "\u0e01-\u0e3a\u0e40-\u0e4e",
    "id": "A-Za-z",
    "lo": "\u0e81-\u0ede",
}


@pytest.fixture(scope="module")
def sentences():
    return {"train": generate("train", 6000), "dev": generate("dev", 500), "test": generate("test", 1000)}


@pytest.fixture(scope="module")
def rows():
    with open(Path(grammar.__file__).with_name("lexicon.tsv"), encoding="utf-8", newline="\n") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


# The lexicon


def test_lexicon_is_complete_and_each_word_is_in_its_script(rows):
    assert len(rows) >= 280
    assert len({row["key"] for row in rows}) == len(rows)
    for row in rows:
        for lang, letters in SCRIPTS.items():
            assert re.fullmatch(f"[{letters}]+([ -][{letters}]+)*", row[lang]), (row["key"], lang, row[lang])


def test_countable_nouns_have_a_plural_and_classifiers(rows):
    for row in rows:
        if row["category"] == "noun" and row["en_forms"] not in ("-", "+") and "kin" not in row["class"]:
            assert row["en_forms"], row["key"]
            assert all(row[f"{lang}_cl"] for lang in ("zh", "th", "id", "lo")), row["key"]


def test_every_class_that_a_word_selects_has_nouns():
    kinds = {kind for entry in lexicon().values() for kind in entry.classes if entry.category in ("noun", "pronoun")}
    for entry in lexicon().values():
        if entry.category in ("action", "steady", "event", "social", "quality", "trait", "color", "relation"):
            assert set(entry.classes + entry.objects + entry.places) <= kinds, entry.key


def test_every_word_of_the_lexicon_is_used(sentences):
    said = {word for sentence in sentences["train"] for word in sentence.words["lo"]}
    missing = {entry.key for entry in lexicon().values() if entry.words["lo"][""] not in said}
    # words the Lao lines of the rules do without
    assert missing <= {"to", "be", "a"} | {entry.key for entry in lexicon().values() if entry.category == "function"}
    keys = {token.name for rule in RULES.values() for line in rule.values() for token in line if token.kind == "key"}
    drawn = {"this", "that", "how_many", "last", "next"}
    assert {entry.key for entry in lexicon().values() if entry.category == "function"} <= keys | drawn


# The splits


def test_each_template_is_in_one_split():
    assert Counter(t.split for t in TEMPLATES.values()) == {"train": 36, "dev": 4, "test": 10}
    patterns = [str([RULES[t.name][lang] for lang in LANGUAGES]) for t in TEMPLATES.values()]
    assert len(set(patterns)) == len(patterns)


def test_no_sentence_of_dev_or_test_is_in_train(sentences):
    for lang in LANGUAGES:
        texts = {split: {s.text(lang) for s in part} for split, part in sentences.items()}
        assert not texts["train"] & (texts["dev"] | texts["test"])


@pytest.mark.parametrize("lang", ["zh", "vi", "th", "lo"])
def test_dev_and_test_have_no_word_that_train_lacks(sentences, lang):
    known = {word for sentence in sentences["train"] for word in sentence.words[lang]}
    assert not {w for split in ("dev", "test") for s in sentences[split] for w in s.words[lang]} - known


# Generation


def test_same_seed_same_sentences_and_a_small_count_begins_a_large_one():
    assert generate("train", 90, seed=3) == generate("train", 200, seed=3)[:90]
    assert generate("train", 90, seed=3) != generate("train", 90, seed=4)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_texts_are_distinct_and_templates_balanced(sentences, split):
    part = sentences[split]
    for lang in LANGUAGES:
        assert len({s.text(lang) for s in part}) == len(part)
    share = Counter(s.template for s in part).values()
    assert max(share) - min(share) <= 1
    assert len(share) == sum(t.split == split for t in TEMPLATES.values())


@pytest.mark.parametrize(
    ("split", "count", "message"),
    [
        ("validation", 5, r"'validation' is unknown; the sample grammar has train, dev, test$"),
        ("train", 10**9, rf"count 1000000000 .* 'train' yields 0 to {CAPACITY['train']} sentences$"),
        ("dev", -1, rf"count -1 .* 0 to {CAPACITY['dev']} "),
    ],
)
def test_impossible_requests_say_what_there_is(split, count, message):
    start = time.monotonic()
    with pytest.raises(ValueError, match=message):
        generate(split, count)
    assert time.monotonic() - start < 1


@pytest.mark.parametrize("name", ["is_noun", "is_at"])
def test_the_narrowest_templates_yield_their_share_of_the_capacity(name):
    template = TEMPLATES[name]
    share = CAPACITY[template.split] // sum(t.split == template.split for t in TEMPLATES.values())
    rng, seen = random.Random(1), {lang: set() for lang in LANGUAGES}
    assert all(grammar.draw(template, rng, seen) for _ in range(share))


def test_a_used_up_template_leaves_the_others(monkeypatch):
    monkeypatch.setattr(grammar, "PATIENCE", 5)
    monkeypatch.setattr(grammar, "draw", lambda template, rng, seen: None)
    with pytest.raises(ValueError, match="'dev' with seed 0 yields no more than 0 sentences"):
        generate("dev", 1)


# Surfaces


def test_joined_words_are_the_text_but_for_case_spaces_and_punctuation(sentences):
    def bare(text):
        return re.sub(r"[\s,.?，。？]", "", text).lower()

    for sentence in sentences["train"]:
        for lang in LANGUAGES:
            assert bare("".join(sentence.words[lang])) == bare(sentence.text(lang))


def test_surfaces_look_as_each_language_is_written(sentences):
    for sentence in [s for part in sentences.values() for s in part]:
        end = "?" if TEMPLATES[sentence.template].question else "."
        for lang in ("en", "vi", "id"):
            text = sentence.text(lang)
            assert text[0].isupper()
            assert text[-1] == end
            assert not re.search("  | [,.?]", text)
        assert re.fullmatch(f"[{SCRIPTS['zh']}，]+{'？' if end == '?' else '。'}", sentence.text("zh"))
        for lang in ("th", "lo"):
            assert re.fullmatch(f"[{SCRIPTS[lang]}]+( [{SCRIPTS[lang]}]+)?", sentence.text(lang))


def test_english_articles_and_agreement(sentences):
    for sentence in sentences["train"] + sentences["test"]:
        words = sentence.words["en"]
        for first, second in pairwise(words):
            if first in ("a", "an"):
                assert (first == "an") == (second[0] in "aeiou" and second != "university")
            if first.lower() in ("he", "she"):
                assert second not in ("are", "have", "do", "am")
            if first in ("we", "you", "they") and sentence.template != "the_person_who":
                assert second not in ("is", "has", "does", "am", "was")


# Links


def test_links_are_in_range_one_to_one_and_symmetric(sentences):
    for sentence in sentences["train"][:800] + sentences["dev"][:200] + sentences["test"][:400]:
        for a, b in combinations(LANGUAGES, 2):
            links = sentence.links(a, b)
            assert links == sorted(links)
            assert sorted((j, i) for i, j in links) == sentence.links(b, a)
            assert len({i for i, _ in links}) == len({j for _, j in links}) == len(links)
            assert all(i < len(sentence.words[a]) and j < len(sentence.words[b]) for i, j in links)
            assert len(links) >= 2


def test_a_word_without_counterpart_has_no_concept(sentences):
    for sentence in sentences["train"][:500]:
        counts = Counter(concept for ids in sentence.concepts.values() for concept in ids if concept >= 0)
        assert min(counts.values()) > 1
        assert {c for w, c in zip(sentence.words["en"], sentence.concepts["en"]) if w == "the"} <= {-1}


def test_linked_content_words_are_dictionary_pairs(sentences):
    """Two languages without inflection: whatever content words are linked, the dictionary has the pair."""
    pairs = set(dictionary("zh", "lo"))
    grammatical = {e.words["zh"][""] for e in lexicon().values() if e.category in grammar.GRAMMAR_CATEGORIES}
    classifiers = {e.words["zh"].get("cl") for e in lexicon().values()}
    checked = 0
    for sentence in sentences["train"]:
        for i, j in sentence.links("zh", "lo"):
            word = sentence.words["zh"][i]
            if word in {zh for zh, _ in pairs} and word not in grammatical | classifiers:
                assert (word, sentence.words["lo"][j]) in pairs, sentence
                checked += 1
    assert checked > 10_000


@pytest.mark.parametrize("bad", ["ja", "EN", ""])
def test_an_unknown_language_is_named(sentences, bad):
    for call in (sentences["dev"][0].text, lambda lang: sentences["dev"][0].links("en", lang)):
        with pytest.raises(ValueError, match=f"language '{bad}' is not in the sample corpus, which has en, zh, vi, th"):
            call(bad)
