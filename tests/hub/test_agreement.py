"""A folder that is what its record says, and twenty that are not."""

import json
import re
import shutil

import pytest
from safetensors.torch import load_file, save_file

import hfxling
from hfxling.cli import main
from hfxling.evaluation.results import EvalResult, read_results
from hfxling.hub.agreement import compare_rows, text_faults
from hfxling.hub.card import CardInfo, render_card
from hfxling.hub.record import file_hashes, is_intact, sealed
from hfxling.hub.verify import Verified
from recipes import siamese

SOURCE = [f"{a}{b}{c}" for a in "我你人" for b in "爱吃苹果" for c in "今天下雨"]
TARGET = [text.translate(str.maketrans("我你人爱吃苹果今天下雨", "abcdefghijk")) for text in SOURCE]
HEAD = "3_Router/zh_0_Dense/model.safetensors"


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_bert):
    """A folder with text beside the model that was fitted on it; every path in the record is relative."""
    root = tmp_path_factory.mktemp("place")
    lines = [f"{source}\t{target}\n" for source, target in zip(SOURCE, TARGET)]
    (root / "test.tsv").write_text("".join(lines[::4]), encoding="utf-8")
    (root / "other.tsv").write_text("".join(lines[1::4]), encoding="utf-8")
    (root / "train.tsv").write_text("".join(line for i, line in enumerate(lines) if i % 4), encoding="utf-8")
    options = "--train_data train.tsv --test_data test.tsv --pairs zh-vi --base_model tiny --layer 2 --fit procrustes"
    options += " --centering train --output_dir out --use_cpu true --data_name NTREX-128 --data_licence cc-by-sa-4.0"
    shutil.copytree(tiny_bert, root / "tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        siamese.main(options.split())
    shutil.rmtree(root / "tiny")  # the folder's own encoder is enough
    return root


@pytest.fixture
def copy(place, tmp_path, monkeypatch):
    """The same, to be changed; the model lies in the folder model."""
    shutil.copytree(place / "out" / "model", tmp_path / "model")
    for path in place.glob("*.tsv"):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "model"


def verified(**options):
    """The status of `hfxling verify model`, and what it prints."""
    result = hfxling.verify("model", device="cpu", **options)
    return result.exit_status, result.table()


def test_what_was_written_agrees_and_every_row_is_measured_again(copy):
    count = len(read_results(copy / "results.json"))
    status, said = verified()
    assert status == 0, said
    assert f"{count} of {count} rows measured again and equal; all agree." in said
    (copy / "README.md").write_text((copy / "README.md").read_text() + "\nA sentence by hand, of 2026, is no fault.\n")
    (copy / ".gitattributes").write_text("*.safetensors filter=lfs\n")
    assert verified()[0] == 0


def test_an_encoder_that_has_other_weights_now_is_named(copy, tiny_bert):
    base = copy.parent / "tiny"
    shutil.copytree(tiny_bert, base)
    assert verified()[0] == 0
    weights = load_file(base / "model.safetensors")
    name = next(iter(weights))
    save_file(weights | {name: weights[name] + 1}, base / "model.safetensors")
    status, said = verified()
    assert status == 1
    assert "DISAGREES  base_model: the weights of tiny are not those that the model was made from" in said


def test_what_was_not_measured_is_not_said_to_agree(copy):
    status, said = verified(files_only=True)
    assert status == 0
    assert "no figure measured again; files and card agree; nothing is known of the figures." in said
    some = Verified("model", None, 3, 2, [], 1, {"d, folds": 1}, True)
    assert some.table() == (
        "model: 3 files and the card, 1 of 2 rows measured again and equal; 1 not measured again, because only "
        "training or an export gives them (d, folds); all that was measured agrees."
    )
    none = Verified("model", None, 3, 2, [], 0, {"d, folds": 2}, True)
    assert "0 of 2 rows measured again" in none.table()
    assert none.table().endswith("files and card agree; nothing is known of the figures.")


def test_a_folder_that_shows_figures_has_them_measured_whatever_it_says_to_be_a_part_of(copy):
    record = json.loads((copy / "results.json").read_text(encoding="utf-8"))
    record["card"]["part_of"] = "org/whole"
    (copy / "results.json").write_text(json.dumps(record), encoding="utf-8")
    result = hfxling.verify("model", device="cpu")
    assert result.is_measured
    assert result.equal > 0
    assert "no figure of its own" not in result.table()


def test_a_model_of_text_in_memory_has_nothing_to_be_measured_again(tmp_path):
    model = hfxling.fit_lexical(SOURCE, TARGET, ("zh", "vi"), rank=8, progress=False)
    hfxling.save_lexical(model, tmp_path / "links")
    result = hfxling.verify(tmp_path / "links")
    assert result.exit_status == 0
    assert "no figure measured again" in result.table()


def test_the_command_says_the_same_and_ends_with_1_where_something_disagrees(copy, capsys):
    main(["verify", "model", "--files_only"])
    assert capsys.readouterr().out.rstrip() == hfxling.verify("model", files_only=True).table()
    (copy / "config.json").write_text("{}")
    with pytest.raises(SystemExit) as stop:
        main(["verify", "model", "--files_only", "true"])
    assert stop.value.code == 1
    assert "DISAGREES  config.json: is not what was recorded" in capsys.readouterr().out


def digit(text, place):
    """The text with another last digit in the first match of a pattern."""
    match = re.search(place, text)
    assert match, place
    end = match.end() - 1
    return text[:end] + str((int(text[end]) + 1) % 10) + text[end + 1 :]


def in_file(name, pattern):
    def tamper(folder):
        path = folder / name
        path.write_text(digit(path.read_text(encoding="utf-8"), pattern), encoding="utf-8")

    return tamper


def byte(name):
    def tamper(folder):
        data = bytearray((folder / name).read_bytes())
        data[-1] ^= 1
        (folder / name).write_bytes(data)

    return tamper


def resealed(change):
    """A change of the record after which its hashes, its seal and the card fit it again."""

    def tamper(folder):
        content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        change(folder, content)
        content.pop("digest")
        content["files"] = file_hashes(folder)
        (folder / "results.json").write_text(sealed(json.dumps(content)), encoding="utf-8")
        card = render_card(read_results(folder / "results.json"), CardInfo.from_record(content["card"]))
        (folder / "README.md").write_text(card, encoding="utf-8")

    return tamper


def better(folder, content):
    row = next(row for row in content["results"] if row["settings"]["stage"] == "after")
    row["value"] += 0.1


def another_head(folder, content):
    tensors = load_file(folder / HEAD)
    save_file({name: tensor.flip(0).contiguous() for name, tensor in tensors.items()}, folder / HEAD)


def another_test(folder, content):
    content["settings"]["test_data"] = ["other.tsv"]


def fewer_rows(folder, content):
    del content["results"][-1]


def more_text(folder, content):
    content["card"]["train_data"][0]["pairs"] += 1000


def write(name, text):
    return lambda folder: (folder / name).write_text(text, encoding="utf-8")


def swap(name, line):
    """One more line of text, in place of the last."""

    def tamper(folder):
        path = folder.parent / name
        path.write_text("".join([*path.read_text(encoding="utf-8").splitlines(True)[:-1], line]), encoding="utf-8")

    return tamper


NUMBER = r'"value": \d+\.\d'
TAMPERED_FIGURES = {
    "a digit of a value": (in_file("results.json", NUMBER), "value .* is recorded, .* measured"),
    "a digit of an interval": (in_file("results.json", r'"low": \d'), "low .* is recorded, .* measured"),
    "a digit of a p-value": (in_file("results.json", r'"p_value": \d\.\d'), "paired p_value .* is recorded"),
    "a digit of n": (in_file("results.json", r'"n": \d+'), "n 1. is recorded, 12 measured"),
    "a digit of a setting": (in_file("results.json", r'"csls_k": \d+'), "results.json has no such row"),
    "other test text": (
        swap("test.tsv", "我爱今\tabc\n"),
        r"NTREX-128, test: other text \(.* is recorded, .* was read\)",
    ),
    "other training text": (swap("train.tsv", "我爱今\tabc\n"), "training data 'NTREX-128': revision .* is recorded"),
    "a figure, sealed again": (resealed(better), "value .* is recorded, .* measured"),
    "another head, sealed again": (resealed(another_head), "value .* is recorded, .* measured"),
    "other test text, sealed again": (resealed(another_test), "NTREX-128, test: other text"),
    "a row less, sealed again": (resealed(fewer_rows), "results.json has no such row"),
    "more text, sealed again": (resealed(more_text), "training data 'NTREX-128': pairs 1036 is recorded, 36 found"),
}
TAMPERED_FILES = {
    "a digit of a table": (in_file("README.md", r"\| P@1 \(%\) *\| *12 \| *\d"), r"README.md, line \d+: '\| NTREX-128"),
    "a digit of the model-index": (in_file("README.md", r"\n +value: \d"), r"README.md, line \d+: 'value: "),
    "a sentence with a score": (
        lambda folder: write("README.md", (folder / "README.md").read_text() + "\nFinds 97.3 % of all.\n")(folder),
        r"README.md, line \d+: 97.3 is in no row",
    ),
    "a table without a row": (
        lambda folder: write("README.md", re.sub(r"\| NTREX-128 .*\n", "", (folder / "README.md").read_text()))(folder),
        "README.md: lacks '\\| NTREX-128",
    ),
    "a byte of the encoder": (byte("model.safetensors"), "model.safetensors: is not what was recorded"),
    "a Dense of the other language": (
        lambda folder: shutil.copy(folder / HEAD.replace("zh", "vi"), folder / HEAD),
        f"{HEAD}: is not what was recorded",
    ),
    "no Dense": (lambda folder: (folder / HEAD).unlink(), f"{HEAD}: is missing"),
    "a layer less": (in_file("config.json", r'"num_hidden_layers": \d'), "config.json: is not what was recorded"),
    "a pickle": (write("pytorch_model.bin", "x"), "pytorch_model.bin: is not recorded, so it was added later"),
}


@pytest.mark.parametrize(("tamper", "message"), TAMPERED_FIGURES.values(), ids=TAMPERED_FIGURES)
def test_figures_and_text_that_were_tampered_with_are_named(tamper, message, copy):
    tamper(copy)
    status, said = verified()
    assert status == 1
    assert any(re.match(rf"DISAGREES  .*{message}", line) for line in said.splitlines()), said


@pytest.mark.parametrize(("tamper", "message"), TAMPERED_FILES.values(), ids=TAMPERED_FILES)
def test_files_that_were_tampered_with_are_named(tamper, message, copy):
    tamper(copy)
    status, said = verified(files_only=True)
    assert status == 1
    assert any(re.match(rf"DISAGREES  .*{message}", line) for line in said.splitlines()), said


def test_a_folder_of_an_older_version_says_what_is_missing(copy):
    content = json.loads((copy / "results.json").read_text(encoding="utf-8"))
    kept = {key: value for key, value in content.items() if key not in ("files", "digest")}
    (copy / "results.json").write_text(json.dumps(kept), encoding="utf-8")
    status, said = verified(files_only=True)
    assert status == 1
    assert "has no hashes of the files, as an older hfxling wrote the folder; write it again" in said


def test_text_that_is_elsewhere_is_named_and_can_be_given(copy, tmp_path):
    (tmp_path / "texts").mkdir()
    for path in tmp_path.glob("*.tsv"):
        path.rename(tmp_path / "texts" / path.name)
    status, said = verified()
    assert (status, "figures: cannot be measured again (train.tsv" in said) == (1, True), said
    assert verified(root="texts")[0] == 0


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("nowhere/at-all", {}, "nowhere/at-all is not a folder, and neither the Hub nor its cache has it"),
        (".", {}, "no results.json there; give a folder that a recipe"),
        ("model", {"root": "nowhere"}, "root=nowhere: no such folder"),
        ("model", {"tolerance": -1.0}, "tolerance=-1.0: give 0 or more"),
    ],
)
def test_mistakes_end_in_one_line(model, options, message, copy, refusal):
    assert message in refusal(lambda: hfxling.verify(model, **options))


def row(value, revision="r", **settings):
    return EvalResult("P@1", value, 9, "d", "test", "zh->vi", revision=revision, settings=settings)


def test_rows_are_held_against_their_own_kind():
    recorded = [row(50.0, stage="before"), row(60.0, stage="after"), row(70.0, stage="after", folds=5)]
    found = [row(60.0000001, stage="after"), row(50.0, stage="before")]
    compared = compare_rows(recorded, found)
    assert (compared.agree, compared.faults, compared.unmeasured) == (2, [], recorded[2:])
    assert compare_rows(recorded[:2], [row(50.2, stage="before"), found[0]], tolerance=0.3).agree == 2
    assert len(compare_rows(recorded[:2], [row(50.2, stage="before"), found[0]]).faults) == 1
    other = compare_rows(recorded[:2], [row(1.0, "s", stage="before"), row(2.0, "s", stage="after")])
    assert other.faults == ["d, test: other text (r is recorded, s was read)"]


def test_training_text_is_held_against_the_card():
    entry = {"name": "d", "pairs": 9, "revision": "r", "dropped": {"duplicate": 1}, "leaks": 0}
    assert text_faults([entry | {"hub_id": "a/b", "licence": "mit"}], [entry]) == []
    assert len(text_faults([entry], [entry | {"leaks": 1, "pairs": 8}])) == 2
    assert "read none of that name" in text_faults([entry], [])[0]


def test_a_seal_covers_everything_but_itself():
    text = sealed('{"results": [], "card": {"name": "x"}}')
    assert is_intact(json.loads(text))
    assert not is_intact(json.loads(text.replace('"x"', '"y"')))
    assert not is_intact({"results": []})
    with pytest.raises(ValueError, match="already has an entry 'digest'"):
        sealed(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"card": []},
        {"card": {}},
        {"card": None},
        {"files": None},
        {"files": ["README.md"]},
        {"files": {"../../etc/passwd": "0"}},
        {"settings": []},
        {"settings": None},
        {"branches": "main"},
        {"results": None},
        {"results": [{"metric": 1}]},
        {"results": [[]]},
    ],
    ids=str,
)
def test_an_odd_record_ends_in_one_line(copy, refusal, changes):
    path = copy / "results.json"
    content = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps(content), encoding="utf-8")
    if changes == {"settings": None}:  # whatever reads it finds nothing to measure by
        assert "cannot be measured again" in verified()[1]
        return
    if changes == {"files": None}:
        assert "no hashes of the files" in verified(files_only=True)[1]
        return
    assert "results.json" in refusal(lambda: hfxling.verify("model"))


@pytest.mark.parametrize("text", ["[]", "null", "[" * 100_000, '{"card": ' * 5_000, ""])
def test_a_record_that_is_none_ends_in_one_line(copy, refusal, text):
    (copy / "results.json").write_text(text, encoding="utf-8")
    assert "results.json" in refusal(lambda: hfxling.verify("model"))
