"""The sample grammar: its splits, its links, and sentences checked word for word."""

import csv
import random
import re
import time
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from hfxling.data.sample import grammar
from hfxling.data.sample.grammar import CAPACITY, LANGUAGES, TEMPLATES, Node, dictionary, generate, lexicon
from hfxling.data.sample.rules import RULES

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
    assert all(grammar._draw(template, rng, seen) for _ in range(share))


def test_a_used_up_template_leaves_the_others(monkeypatch):
    monkeypatch.setattr(grammar, "PATIENCE", 5)
    monkeypatch.setattr(grammar, "_draw", lambda template, rng, seen: None)
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
    for call in (sentences["dev"][0].text, lambda lang: sentences["dev"][0].links("en", lang),
                 lambda lang: dictionary(lang, "zh")):  # fmt: skip
        with pytest.raises(ValueError, match=f"language '{bad}' is not in the sample corpus, which has en, zh, vi, th"):
            call(bad)


def test_dictionary_holds_content_words_only_and_no_pair_twice():
    pairs = dictionary("vi", "lo")
    assert ("bệnh viện", "ໂຮງໝໍ") in pairs
    assert ("tôi", "ຂ້ອຍ") not in pairs
    assert len(set(pairs)) == len(pairs) > 300
    assert sorted((b, a) for a, b in pairs) == sorted(dictionary("lo", "vi"))


# Sentences checked by hand. A node: "rule", children by name; entries by key.


def node(rule, agreement=1, **children):
    return Node(rule, {name: lexicon()[c] if isinstance(c, str) else c for name, c in children.items()}, agreement)


def de(adjective):
    return node("adjective_de", A=adjective)


THE_TABLE = node("ground", N="table")
CHECKED = {
    "classifiers": (
        "there_are",
        {"R": "on", "G": THE_TABLE, "K": node("count", 2, Q="three", N="book", A="new")},
        {
            "en": "There are three new books on the table.",
            "zh": "桌子 上 有 三 本 新 书",
            "vi": "trên bàn có ba quyển sách mới",
            "th": "บน โต๊ะ มี หนังสือ ใหม่ สาม เล่ม",
            "id": "ada tiga buah buku baru di atas meja",
            "lo": "ຢູ່ ເທິງ ໂຕະ ມີ ປຶ້ມ ໃໝ່ ສາມ ຫົວ",
        },
        {
            ("en", "zh"): "There-有 three-三 new-新 books-书 on-上 table-桌子",
            ("zh", "th"): "桌子-โต๊ะ 上-บน 有-มี 三-สาม 本-เล่ม 新-ใหม่ 书-หนังสือ",
            ("lo", "id"): "ເທິງ-atas ໂຕະ-meja ມີ-ada ປຶ້ມ-buku ໃໝ່-baru ສາມ-tiga ຫົວ-buah",
        },
    ),
    "negation": (
        "did_not",
        {
            "S": node("kin", N="mother", P=node("my", N="he")),
            "V": "buy",
            "O": node("demonstrative", D="this", N="skirt", A=de("red")),
            "T": "yesterday",
        },
        {
            "en": "His mother did not buy this red skirt yesterday.",
            "zh": "他 妈妈 昨天 没 买 这 条 红色 的 裙子",
            "vi": "mẹ anh ấy không mua chiếc váy đỏ này hôm qua",
            "th": "แม่ ของ เขา ไม่ได้ ซื้อ กระโปรง สีแดง ตัว นี้ เมื่อวานนี้",
            "id": "ibunya tidak membeli rok merah ini kemarin",
            "lo": "ແມ່ ຂອງ ລາວ ບໍ່ໄດ້ ຊື້ ກະໂປ່ງ ສີແດງ ໂຕ ນີ້ ມື້ວານນີ້",
        },
        {
            ("en", "zh"): "His-他 mother-妈妈 not-没 buy-买 this-这 red-红色 skirt-裙子 yesterday-昨天",
            ("zh", "lo"): "他-ລາວ 妈妈-ແມ່ 昨天-ມື້ວານນີ້ 没-ບໍ່ໄດ້ 买-ຊື້ 这-ນີ້ 条-ໂຕ 红色-ສີແດງ 裙子-ກະໂປ່ງ",
            ("id", "en"): "ibunya-mother tidak-not membeli-buy rok-skirt merah-red ini-this kemarin-yesterday",
        },
    ),
    "question": (
        "does",
        {
            "S": node("kin", N="mother", P=node("my", N="you")),
            "V": "drink",
            "O": node("bare", N="tea", A=de("hot")),
            "T": node("every", U="morning"),
        },
        {
            "en": "Does your mother drink hot tea every morning?",
            "zh": "你 妈妈 每 天 早上 喝 热 的 茶 吗",
            "vi": "mẹ bạn có uống trà nóng mỗi sáng không",
            "th": "แม่ ของ คุณ ดื่ม ชา ร้อน ทุก เช้า ไหม",
            "id": "apakah ibumu minum teh panas setiap pagi",
            "lo": "ແມ່ ຂອງ ເຈົ້າ ດື່ມ ຊາ ຮ້ອນ ທຸກ ເຊົ້າ ບໍ",
        },
        {
            ("en", "zh"): "your-你 mother-妈妈 drink-喝 hot-热 tea-茶 every-每 morning-早上",
            ("zh", "vi"): "你-bạn 妈妈-mẹ 每-mỗi 早上-sáng 喝-uống 热-nóng 茶-trà 吗-không",
            ("th", "lo"): "แม่-ແມ່ ของ-ຂອງ คุณ-ເຈົ້າ ดื่ม-ດື່ມ ชา-ຊາ ร้อน-ຮ້ອນ ทุก-ທຸກ เช้า-ເຊົ້າ ไหม-ບໍ",
        },
    ),
    "word order of a wh-question, counted things": (
        "how_many_did",
        {
            "S": node("the", N="teacher"),
            "V": "look_for",
            "K": node("count", 2, Q="how_many", N="cat", A=de("white")),
            "T": node("near_time", U="week", W="last"),
        },
        {
            "en": "How many white cats did the teacher look for last week?",
            "zh": "老师 上 个 星期 找 了 几 只 白色 的 猫",
            "vi": "giáo viên đã tìm mấy con mèo trắng tuần trước",
            "th": "ครู หา แมว สีขาว กี่ ตัว สัปดาห์ ที่แล้ว",
            "id": "guru itu mencari berapa ekor kucing putih minggu lalu",
            "lo": "ຄູ ຊອກຫາ ແມວ ສີຂາວ ຈັກ ໂຕ ອາທິດ ແລ້ວ",
        },
        {
            ("en", "zh"): "How-几 white-白色 cats-猫 teacher-老师 look-找 last-上 week-星期",
            ("zh", "vi"): "老师-giáo_viên 上-trước 星期-tuần 找-tìm 了-đã 几-mấy 只-con 白色-trắng 猫-mèo",
            ("id", "th"): "guru-ครู mencari-หา berapa-กี่ ekor-ตัว kucing-แมว putih-สีขาว minggu-สัปดาห์ lalu-ที่แล้ว",
        },
    ),
    "comparison": (
        "compare",
        {
            "A": "expensive",
            "S": node("demonstrative", D="that", N="car"),
            "X": node("possessed", P=node("owner", N="doctor"), N="boat"),
        },
        {
            "en": "That car is more expensive than the doctor's boat.",
            "zh": "那 辆 汽车 比 医生 的 船 贵",
            "vi": "chiếc ô tô đó đắt hơn chiếc thuyền của bác sĩ",
            "th": "รถยนต์ คัน นั้น แพง กว่า เรือ ของ หมอ",
            "id": "mobil itu lebih mahal daripada perahu dokter",
            "lo": "ລົດຍົນ ຄັນ ນັ້ນ ແພງ ກວ່າ ເຮືອ ຂອງ ທ່ານໝໍ",
        },
        {
            ("en", "zh"): "That-那 car-汽车 expensive-贵 than-比 doctor's-医生 boat-船",
            ("vi", "lo"): "chiếc-ຄັນ ô_tô-ລົດຍົນ đó-ນັ້ນ đắt-ແພງ hơn-ກວ່າ thuyền-ເຮືອ của-ຂອງ bác_sĩ-ທ່ານໝໍ",
            ("id", "th"): "mobil-รถยนต์ itu-นั้น mahal-แพง daripada-กว่า perahu-เรือ dokter-หมอ",
        },
    ),
    "a place inside and a weekday": (
        "past_at",
        {
            "S": node("the", N="doctor"),
            "V": "plant",
            "O": node("a", N="tree"),
            "L": node("inside", N=node("ground", N="park")),
            "T": node("weekday", U="Monday"),
        },
        {
            "en": "The doctor planted a tree in the park on Monday.",
            "zh": "医生 星期一 在 公园 里 种 了 一 棵 树",
            "vi": "bác sĩ đã trồng một cái cây trong công viên vào thứ Hai",
            "th": "หมอ ปลูก ต้นไม้ ต้น หนึ่ง ใน สวนสาธารณะ ใน วันจันทร์",
            "id": "dokter itu menanam sebatang pohon di taman pada hari Senin",
            "lo": "ທ່ານໝໍ ປູກ ຕົ້ນໄມ້ ຕົ້ນ ໜຶ່ງ ຢູ່ໃນ ສວນສາທາລະນະ ໃນ ວັນຈັນ",
        },
        {
            ("en", "zh"): "doctor-医生 planted-种 a-一 tree-树 in-在 park-公园 Monday-星期一",
            ("zh", "vi"): "医生-bác_sĩ 星期一-thứ_Hai 在-trong 公园-công_viên 种-trồng 了-đã 一-một 棵-cái 树-cây",
            ("id", "lo"): "dokter-ທ່ານໝໍ menanam-ປູກ sebatang-ໜຶ່ງ pohon-ຕົ້ນໄມ້ di-ຢູ່ໃນ taman-ສວນສາທາລະນະ pada-ໃນ "
            "hari_Senin-ວັນຈັນ",
        },
    ),
    "clauses, place and time": (
        "when_arrive",
        {
            "S": node("pronoun", 0, N="i"),
            "D": node("arrival", N=node("ground", N="school")),
            "V": "read",
            "X": node("count", 2, Q="two", N="student"),
            "O": node("a", N="newspaper"),
        },
        {
            "en": "When I arrived at the school, two students were reading a newspaper.",
            "zh": "我 到 学校 的 时候 ， 两 个 学生 正在 读 一 份 报纸",
            "vi": "khi tôi đến trường học , hai học sinh đang đọc một tờ báo",
            "th": "ตอนที่ ฉัน มาถึง โรงเรียน นักเรียน สอง คน กำลัง อ่าน หนังสือพิมพ์ ฉบับ หนึ่ง",
            "id": "ketika saya tiba di sekolah , dua orang murid sedang membaca selembar koran",
            "lo": "ຕອນທີ່ ຂ້ອຍ ມາຮອດ ໂຮງຮຽນ ນັກຮຽນ ສອງ ຄົນ ກຳລັງ ອ່ານ ໜັງສືພິມ ສະບັບ ໜຶ່ງ",
        },
        {
            ("en", "zh"): "When-时候 I-我 arrived-到 school-学校 two-两 students-学生 reading-读 a-一 newspaper-报纸",
            ("en", "id"): "When-ketika I-saya arrived-tiba school-sekolah two-dua students-murid reading-membaca "
            "a-selembar newspaper-koran",
            ("zh", "lo"): "我-ຂ້ອຍ 到-ມາຮອດ 学校-ໂຮງຮຽນ 时候-ຕອນທີ່ 两-ສອງ 个-ຄົນ 学生-ນັກຮຽນ 正在-ກຳລັງ 读-ອ່ານ "
            "一-ໜຶ່ງ 份-ສະບັບ 报纸-ໜັງສືພິມ",
        },
    ),
}


@pytest.mark.parametrize("case", CHECKED)
def test_sentence_word_for_word(case):
    template, children, expected, links = CHECKED[case]
    children = {n: lexicon()[c] if isinstance(c, str) else c for n, c in children.items()}
    sentence = grammar._realise(TEMPLATES[template], children)
    assert sentence.text("en") == expected["en"]
    for lang in LANGUAGES[1:]:
        spoken = " ".join(sentence.words[lang])
        assert spoken == re.sub(r" [,，]", "", expected[lang]), lang
    for (source, target), pairs in links.items():
        words = [[w.replace(" ", "_") for w in sentence.words[lang]] for lang in (source, target)]
        found = {f"{words[0][i]}-{words[1][j]}" for i, j in sentence.links(source, target)}
        assert {pair.lower() for pair in found} == {pair.lower() for pair in pairs.split()}, (source, target)


def possessed(rule, adjective):
    skirt = node(rule, N="skirt", A=adjective, P=node("my", N="i"))
    return grammar._realise(TEMPLATES["where_is"], {"S": skirt})


def test_chinese_says_one_de_only():
    assert possessed("possessed_quality", de("red")).text("zh") == "我红色的裙子在哪里？"
    assert possessed("possessed", "new").text("zh") == "我的新裙子在哪里？"
    adjectives = "|".join(e.words["zh"][""] for e in lexicon().values() if e.category in ("quality", "color"))
    long = re.compile(f"(我|你|他|她)们?的({adjectives})的")
    assert not [s.text("zh") for s in generate("train", 1000, seed=9) if long.search(s.text("zh"))]
