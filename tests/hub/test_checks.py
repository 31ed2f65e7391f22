"""What is found in files and licences before anything is published."""

import pytest

from hfxling.data.licences import release_fault
from hfxling.hub.checks import base_licence, local_path, release_faults, text_faults


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("a: ../shared/data/x.txt+../shared/y", "../shared/data/x.txt"),
        ("base_model: /home/me/bert", "/home/me/bert"),
        ("train.tsv+/srv2/data/x.tsv", "/srv2/data/x.tsv"),
        ("--train_data ~/x.tsv", "~/x.tsv"),
        ("C:\\Users\\me\\x", "C:\\Users\\me\\x"),
        ("see https://github.com/home/x", None),
        ("and/or a/b, 1/2/3", None),
        ("- data/train.tsv", None),
        ("org/name:config@main", None),
    ],
)
def test_paths_of_this_machine(line, path):
    assert local_path(line) == path


def test_a_path_is_named_once_with_all_its_places():
    files = {
        "README.md": b"a: /home/me/x.tsv\n\nb: /home/me/x.tsv\n",
        "config.yaml": b"c: /home/me/x.tsv\nd: ../other\n",
    }
    assert text_faults(files) == [
        "'/home/me/x.tsv' is a path of this machine (README.md, lines 1, 3; config.yaml, line 1); "
        "give --names /home/me/x.tsv=ITS_PUBLIC_NAME",
        "'../other' is a path of this machine (config.yaml, line 2); give --names ../other=ITS_PUBLIC_NAME",
    ]


def test_tokens_are_found_in_any_text_and_never_shown(monkeypatch):
    monkeypatch.setattr("hfxling.hub.contents.get_token", lambda: "my-own-token")
    files = {
        "a.py": b"x = 1\nkey = 'hf_abcdefghijklmnop'\n",
        "b.json": b"my-own-token",
        "c.bin": b"x",
        "d.txt": b"hf_x",
    }
    faults = text_faults(files | {"e.safetensors": b"\0\0\0hf_abcdefghijklmnop"})
    assert [fault.split(":")[0] for fault in faults] == ["a.py, line 2", "b.json, line 1", "c.bin", "e.safetensors"]
    assert not any("abcdefgh" in fault or "my-own" in fault for fault in faults)


@pytest.mark.parametrize(
    ("licence", "theirs", "message"),
    [
        ("mit", "apache-2.0", None),
        ("cc-by-sa-4.0", "cc-by-sa-4.0", None),
        ("cc-by-nc-4.0", "cc-by-nc-4.0", None),
        ("mit", None, "no licence is stated"),
        ("mit", "other", "no licence is stated"),
        ("cc-by-nd-4.0", "cc-by-nd-4.0", "forbids to release"),
        ("mit", "cc-by-nc-4.0", "may not be released for commercial use, as mit"),
        ("mit", "cc-by-sa-4.0", "must be released under that licence, not mit"),
        ("cc-by-nc-sa-4.0", "cc-by-sa-4.0", "must be released under that licence"),
    ],
)
def test_licences_of_what_a_model_was_made_of(licence, theirs, message):
    found = release_fault(licence, {"the text": theirs})
    assert found is None if message is None else message in found


def test_a_base_that_no_reader_has():
    card = {"licence": "mit", "train_data": [{"name": "d", "licence": "mit"}]}
    assert release_faults(card | {"base_model": "none, counted from text"}, None) == []
    assert release_faults(card | {"base_model": "org/base"}, "mit") == []
    (fault,) = release_faults(card | {"base_model": "./base"}, None)
    assert "'./base' is a local folder, which readers do not have; give --names ./base=ITS_HUB_ID" in fault


def test_a_hub_that_cannot_be_asked_for_a_licence_is_told_and_costs_nothing(unreachable_hub, caplog):
    """After training, too: the folder must still be written."""
    assert base_licence("org/base", unreachable_hub) is None
    assert "org/base: the Hub did not say which licence it has ([Errno " in caplog.text
