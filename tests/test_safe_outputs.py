"""No command writes over what it reads, or over what somebody else put there."""

import pytest

import hfxling
from hfxling.cli import main
from hfxling.files import alone_in, alone_with


@pytest.fixture
def heap(tmp_path, monkeypatch):
    """A folder of text, and other things in it."""
    monkeypatch.chdir(tmp_path)
    lines = [(f"我吃苹果{row}", f"tôi ăn táo {row}") for row in range(120)]
    for name, column in (("a.zh", 0), ("b.vi", 1)):
        (tmp_path / name).write_text("".join(f"{line[column]}\n" for line in lines), encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("".join(f"{zh}\t{vi}\n" for zh, vi in lines), encoding="utf-8")
    (tmp_path / "link").symlink_to("a.zh")
    return tmp_path


LANGUAGES = ["--source_lang", "zh", "--target_lang", "vi"]
COMMANDS = {
    "bootstrap": ["a.zh", "b.vi", "--seed_pairs", "pairs.tsv", *LANGUAGES, "--output", "{folder}"],
    "bootstrap here": ["a.zh", "b.vi", "--seed_pairs", "pairs.tsv", *LANGUAGES, "--output", "."],
    "quality": ["pairs.tsv", "--model", "m", *LANGUAGES, "--output", "./pairs.tsv"],
    "align": ["a.zh", "b.vi", "--model", "m", "--output", "link"],
    "align twice": ["a.zh", "b.vi", "--model", "m", "--output", "x", "--heatmap", "./x"],
    "lexicon": ["a.zh", "b.vi", "--model", "m", "--output", "b.vi"],
    "align-documents": ["a.zh", "pairs.tsv", "--model", "m", "--output", "pairs.tsv", *LANGUAGES],
    "mine": ["a.zh", "pairs.tsv#1", "--lexical", "m", *LANGUAGES, "--output", "pairs.tsv"],
    "encode": ["a.zh", "b.vi", "--model", "m", "--output", "x.npy", "./x.npy"],
    "clean": ["a.zh+pairs.tsv", *LANGUAGES, "--output", "pairs.tsv"],
    "fit": ["a.zh", "b.vi", "--languages", "zh", "vi", "--output", "{folder}"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_there_stays(name, heap, capsys):
    folder = heap / "others"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "notes.txt").write_text("mine")
    before = {path: path.read_bytes() for path in heap.rglob("*") if path.is_file()}
    with pytest.raises(SystemExit) as stop:
        main([name.split()[0], *(word.format(folder=folder) for word in COMMANDS[name])])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert (
        "read" in error
        or "is an input" in error
        or "did not write" in error
        or "is the same file as" in error
        or "working directory" in error
    )
    assert {path: path.read_bytes() for path in heap.rglob("*") if path.is_file()} == before


WRITERS = {
    "quality": ["pairs.tsv", "--lexical", "{links}", *LANGUAGES],
    "align": ["a.zh", "b.vi", "--model", "{links}"],
    "lexicon": ["a.zh", "b.vi", "--model", "{links}", "--min_count", "1"],
    "mine": ["a.zh", "b.vi", "--lexical", "{links}", *LANGUAGES],
    "clean": ["pairs.tsv", *LANGUAGES],
}


@pytest.fixture(scope="module")
def links(tmp_path_factory):
    """A model of the heap's pairs."""
    folder = tmp_path_factory.mktemp("links")
    pairs = [(f"我 吃 苹果 {row}", f"tôi ăn táo {row}") for row in range(120)]
    model = hfxling.fit_lexical(*zip(*pairs), ("zh", "vi"), rank=4, progress=False)
    hfxling.save_lexical(model, folder / "model")
    return folder / "model"


@pytest.mark.parametrize("name", WRITERS)
def test_devices_are_written_to(name, heap, links, capfd):
    words = [word.format(links=links) for word in WRITERS[name]]
    main([name, *words, "--output", "/dev/null"])
    capfd.readouterr()
    main([name, *words, "--output", "/dev/stdout"])
    assert len(capfd.readouterr().out.splitlines()) > 20
    assert not [path.name for path in heap.iterdir() if "dropped" in path.name or "null" in path.name]


TOGETHER = {name: [*WRITERS[name], "--output", "made/out.tsv"] for name in WRITERS} | {
    "align": ["a.zh", "b.vi", "--languages", "zh", "vi", "--output", "made/out.tsv"],
    "align-documents": ["a.zh", "b.vi", "--model", "m", "--output", "made/out.tsv"],
    "encode": ["a.zh", "--model", "m", "--output", "made/out.npy"],
    "bootstrap": ["a.zh", "b.vi", "--seed_pairs", "pairs.tsv", *LANGUAGES, "--output", "made/out"],
    "demo": ["org/a", "--space", "made/out"],
    "evaluate": ["m", "--task", "retrieval", "--data", "pairs.tsv", "--output", "made/out/into"],
    "fit": ["a.zh", "b.vi", "--languages", "zh", "vi", "--output", "made/out/into"],
}


@pytest.mark.parametrize("name", TOGETHER)
def test_of_two_runs_with_one_output_the_second_is_told_so(name, heap, links, capsys):
    words = [word.format(links=links) for word in TOGETHER[name]]
    place = heap / words[-1]
    hold = alone_in if place.name == "into" else alone_with
    before = {path for path in heap.rglob("*") if path.is_file()}
    with hold(place, "the first run"), pytest.raises(SystemExit) as stop:
        main([name.split()[0], *words])
    assert stop.value.code == 2
    option = words[-2].removeprefix("--")
    assert capsys.readouterr().err == (
        f"error: {option}={words[-1]}: another run writes there; wait for it, or name another.\n"
    )
    assert {path for path in heap.rglob("*") if path.is_file()} == before
    assert not (heap / "made").exists(), "what was held leaves nothing"


def test_several_runs_may_share_a_cache(heap, links, capsys):
    words = ["mine", "a.zh", "b.vi", "--lexical", str(links), *LANGUAGES, "--cache_dir", "cache", "--output", "x.tsv"]
    with alone_in(heap / "cache", "the first run"):
        main(words)
    assert (heap / "x.tsv").exists()
