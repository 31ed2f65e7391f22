"""What cards say to readers with another client; tests/clients/check.py runs the snippets themselves."""

import json
import re
import shlex

import pytest
from methods import METHODS

from hfxling.data.corpus import Corpus
from hfxling.hub.snippets import (
    FASTEMBED,
    LANGCHAIN,
    ONNX,
    TEI,
    Client,
    client_snippets,
    clients_of,
    own_examples,
    server_request,
    standard_snippets,
    width_of,
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root, found = tmp_path_factory.mktemp("snippets"), {}
    for name, variant in (
        ("siamese", "raw input"),
        ("siamese", "per language"),
        ("siamese", "two layers, shared"),
        ("disentangler", "prompt"),
    ):
        method, folder = METHODS[name], root / re.sub(r"\W+", "_", variant)
        method.write(
            method.build(root / "scratch" / folder.name, **method.variants[variant]),
            root / "scratch" / folder.name,
            folder,
        )
        found[variant] = folder
    return found


def told(folder):
    clients = clients_of(folder)
    faults = {name: client.fault for name, client in clients.items() if client.fault}
    return client_snippets(clients, ["zh", "vi"], width_of(folder)) | faults


def test_a_server_is_asked_with_the_request_that_the_test_of_servers_sends(folders):
    _, curl = told(folders["raw input"])[TEI].splitlines()
    body = shlex.split(curl)[-1]
    assert json.loads(body) == {"inputs": ["今天下雨。", "Hôm nay trời mưa."], "truncate": True}
    assert body == server_request(["今天下雨。", "Hôm nay trời mưa."])


def test_texts_are_in_the_language_that_they_are_said_to_be_in(folders):
    snippet = client_snippets({LANGCHAIN: Client(languages=["lo", "zh", "vi"])}, ["vi", "zh"])[LANGCHAIN]
    assert snippet.index('{"task": "lo"}') < snippet.index('{"task": "zh"}')
    assert 'embed_query("ມື້ນີ້ຝົນຕົກ")' in snippet
    assert 'embed_documents(["今天下雨。"])' in snippet


def test_examples_of_other_languages_are_pairs_of_the_text():
    khmer = ["ថ្ងៃនេះភ្លៀង", 'គាត់និយាយថា "បាទ"', "តើផ្សារនៅឯណា", "ខ្ញុំចូលចិត្តតែ"]
    burmese = ["ဒီနေ့ မိုးရွာတယ်", "ဟုတ်ကဲ့လို့ ပြောတယ်", "ဈေးက ဘယ်မှာလဲ", "ကျွန်တော် ၁၂ နာရီ"]
    pairs = Corpus.in_memory({("km", "my"): (khmer, burmese), ("zh", "vi"): (["今天"], ["Hôm nay"])}).pairs
    examples = own_examples(pairs)
    assert examples == {"km": [khmer[0], khmer[2]], "my": [burmese[0], burmese[2]]}, "no quotes, in the text's order"
    snippet = next(iter(standard_snippets(["km", "my"], examples=examples).values()))
    assert f'encode_query(["{khmer[0]}"])' in snippet
    assert f'encode_document(["{burmese[0]}"])' in snippet
    assert own_examples(pairs[1:]) == {}, "of these we have some"


def test_a_module_of_ours_is_for_those_who_can_say_that_they_trust_it(folders):
    found = told(folders["two layers, shared"])
    assert 'model_kwargs={"trust_remote_code": True},' in found[LANGCHAIN]
    assert "trust_remote_code" in found[TEI]
    assert "\n" not in found[TEI]


def test_fastembed_gets_no_snippet_that_gives_other_vectors(folders):
    for variant, reason in (
        ("raw input", "it has no ONNX file"),
        ("per language", "it has no ONNX file on main, which is all it asks for; the branches vi and zh have one"),
        ("prompt", "it puts no prompt before texts, and this model wants one"),
    ):
        folder = folders[variant]
        for place in {"per language": ("zh", "vi"), "prompt": ("",)}.get(variant, ()):
            (folder / place / ONNX).parent.mkdir(parents=True)
            (folder / place / ONNX).touch()
        assert told(folder)[FASTEMBED] == reason


def test_fastembed_is_told_of_the_file_that_large_weights_are_in(folders):
    folder = folders["two layers, shared"]
    (folder / ONNX).parent.mkdir()
    (folder / ONNX).touch()
    assert "additional_files" not in told(folder)[FASTEMBED]
    (folder / f"{ONNX}.data").touch()
    assert 'additional_files=["onnx/model.onnx.data"],' in told(folder)[FASTEMBED]


def test_a_quote_in_an_example_does_not_end_the_request(folders):
    clients = clients_of(folders["raw input"])
    examples = {"zh": ["今天下雨。"], "vi": ["aujourd'hui"]}
    _, curl = client_snippets(clients, ["zh", "vi"], width_of(folders["raw input"]), examples)[TEI].splitlines()
    assert json.loads(shlex.split(curl)[-1])["inputs"][1] == "aujourd'hui"
