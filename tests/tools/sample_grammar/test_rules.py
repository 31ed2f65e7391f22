"""Sentences of the sample grammar, checked word for word."""

import re

import pytest
from sample_grammar import grammar
from sample_grammar.grammar import LANGUAGES, TEMPLATES, Node, generate, lexicon

# A node: "rule", children by name; entries by key.


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
    sentence = grammar.realise(TEMPLATES[template], children)
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
    return grammar.realise(TEMPLATES["where_is"], {"S": skirt})


def test_chinese_says_one_de_only():
    assert possessed("possessed_quality", de("red")).text("zh") == "我红色的裙子在哪里？"
    assert possessed("possessed", "new").text("zh") == "我的新裙子在哪里？"
    adjectives = "|".join(e.words["zh"][""] for e in lexicon().values() if e.category in ("quality", "color"))
    long = re.compile(f"(我|你|他|她)们?的({adjectives})的")
    assert not [s.text("zh") for s in generate("train", 1000, seed=9) if long.search(s.text("zh"))]
