"""`hfxling.publish` against the stand-in Hub: checked, shown, one commit; and what it refuses."""

import json
import re

import pytest
import yaml

import hfxling
from hfxling.evaluation.results import EvalResult
from hfxling.hub.agreement import card_faults
from hfxling.hub.record import is_intact

REPO = "org/head"
SECRET = "hf_aSecretThatNobodyMaySee"

# Writes heads on vectors into folders, then runs commands; prints how each ended as JSON.
COMMANDS = """
import json, shutil, sys
from pathlib import Path
import torch
import hfxling
from hfxling.evaluation.results import EvalResult
from hfxling.hub.card import CardInfo
from hfxling.hub.record import file_hashes, sealed
from hfxling.hub.writing import export
from hfxling.hub.folder import publish as write
from hfxling.models import SiameseConfig, SiameseModel

def reseal(folder):
    path = Path(folder) / "results.json"
    content = json.loads(path.read_text())
    content.pop("digest")
    content["files"] = file_hashes(Path(folder))
    path.write_text(sealed(json.dumps(content)))

def head(folder, value=33.3, seed=0, **changes):
    torch.manual_seed(seed)
    model = SiameseModel(SiameseConfig(hidden_size=6, bias=True))
    torch.nn.init.normal_(next(model.head.parameters()))
    data = {"name": "NTREX-128", "pairs": 9, "licence": "cc-by-sa-4.0"}
    about = dict(repo_id="x", method="siamese", summary="A head.", citation="@misc{x}",
                 base_model="precomputed vectors", languages=["zh", "vi"], licence="cc-by-sa-4.0", train_data=[data],
                 intended_use="Search.", limits=["Small."])
    rows = [EvalResult("P@1", value, 9, "NTREX-128", "test", "zh->vi", low=value, high=value, revision="r")]
    write(folder, lambda path: export(model, None, path), rows, CardInfo(**about | changes), recipe="r")

def run(options):
    folder = options.pop("folder")
    try:
        return [hfxling.publish(folder, **options).table(), ""]
    except (ValueError, FileNotFoundError) as error:
        return ["", str(error)]

found = []
for step in json.loads(sys.argv[1]):
    if isinstance(step, str):
        exec(step)
    else:
        found.append(run(step))
print(json.dumps(found))
"""


def run(publisher, tmp_path, *steps, **environment):
    """What each command printed, and its error; a step that is a text is Python, run before the next command."""
    done = publisher.run(COMMANDS, json.dumps(steps), cwd=tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def put(folder="a", repo=REPO, **options):
    return {"folder": folder, "repo": repo, **options}


@pytest.mark.slow
def test_a_folder_is_shown_then_put_there_in_one_commit_once(hub, publisher, tmp_path):
    told = run(
        publisher, tmp_path, "head('a')", put(dry_run=True), put(tag="v1", collection="The zoo"), put(),
        "head('a', value=44.4, seed=1); Path('a/unread.txt').unlink(missing_ok=True)", put(dry_run=True), put(),
        "head('a', value=55.5)", put(create_pr=True), put(branch="next"),
        HF_TOKEN=SECRET,
    )  # fmt: skip
    assert [error for _, error in told] == [""] * 7
    dry, first, again, dry_change, change, proposal, branch = (said for said, _ in told)
    assert "a new repository" in dry
    assert re.search(r"\+ model.safetensors \([\d,]+ bytes\)", dry)
    repo = hub.repo(REPO)
    commits = list(repo.commits.values())
    assert "nothing to do, all" in again
    assert [commit.title for commit in commits] == ["initial commit"] + ["Model with its record"] * 3, (
        "the proposal and the branch hold the same"
    )
    assert repo.tags == {"v1": commits[1].oid}
    assert f"tag v1 at {commits[1].oid[:12]}" in first
    assert hub.collections == {"org/the-zoo-0": [{"id": REPO, "type": "model"}]}
    assert "~ model.safetensors" in dry_change
    assert "+| NTREX-128" in change
    assert "44.4" in change
    assert repo.branches.keys() == {"main", "refs/pr/1", "next"}
    assert "discussions/1" in proposal
    assert "a new branch" in branch
    assert repo.branches["main"] == commits[2].oid, "neither proposal nor branch touched it"
    card = hub.files(REPO)["README.md"].decode()
    assert "repo_id" not in card
    assert json.loads(hub.files(REPO)["results.json"])["card"]["repo_id"] == REPO
    assert not any(SECRET.encode() in data for data in hub.files(REPO).values())


@pytest.mark.slow
def test_files_that_are_no_more_are_removed_and_a_tag_stays_where_it_is(hub, publisher, tmp_path):
    told = run(
        publisher, tmp_path, "head('a'); Path('a/old.txt').write_text('x'); reseal('a')", put(tag="v1"),
        "head('a', seed=1)", put(tag="v1"), put(),
    )  # fmt: skip
    assert re.match(r"tag=v1 is at \w{12} in org/head", told[1][1])
    assert "  - old.txt" in told[2][0]
    assert "old.txt" not in hub.files(REPO)


DATA = {"folder": "d.tsv", "repo": REPO, "dataset": True, "languages": ["zh", "vi"], "licence": "mit"}
CASES = {
    "no namespace": ([put(repo="head")], "repo='head': give the repository as namespace/name"),
    "no such folder": ([put(folder="b")], "b: no such file or folder"),
    "no record": (["Path('b').mkdir()", put(folder="b")], "b: no results.json there"),
    "a proposal to a branch": ([put(create_pr=True, branch="x")], "pull requests are for main"),
    "a file that was changed": (
        ["Path('a/config.json').write_text('{}')", put()],
        "config.json: is not what was recorded",
    ),
    "a pickle": (["Path('a/x.bin').write_bytes(b'x')", put()], "x.bin: is not recorded"),
    "a recorded pickle": (
        ["head('b'); Path('b/x.bin').write_bytes(b'x'); reseal('b')", put(folder="b")],
        "x.bin: is a pickle, which runs code when it is read; publish safetensors",
    ),
    "a token": (
        [f"head('b', limits=['{SECRET} opens it.'])", put(folder="b")],
        r"README.md, line \d+: holds a token or a key; .*results.json, line \d+: holds a token",
    ),
    "a path": (
        ["head('b', configuration={'train_data': ['/home/me/x.tsv']})", put(folder="b")],
        r"'/home/me/x.tsv' is a path of this machine \(README.md, line \d+; .*\); give --names /home/me/x.tsv=",
    ),
    "a path above": (
        ["head('b', training_command='python x.py --train_data ../shared/x.tsv')", put(folder="b")],
        r"'../shared/x.tsv' is a path of this machine \(README.md, line \d+",
    ),
    "a local base": (["head('b', base_model='./encoder')", put(folder="b")], "'./encoder' is a local folder"),
    "a base without licence": (
        ["head('b', base_model='org/base')", put(folder="b")],
        "the base model 'org/base': no licence",
    ),
    "a base that forbids": (
        ["head('b', base_model='org/nc')", put(folder="b")],
        "the base model 'org/nc' is under cc-by-nc-4.0: what is made of it may not be released for commercial use",
    ),
    "text that wants its own licence": (
        ["head('b', licence='mit')", put(folder="b")],
        "must be released under that licence",
    ),
    "text without a licence": (
        ["head('b', train_data=[{'name': 'd', 'pairs': 3}])", put(folder="b")],
        "the text 'd': no licence is stated",
    ),
    "a score without a row": (
        ["head('b'); f = Path('b/README.md'); f.write_text(f.read_text() + 'Finds 97.3 % of all.')", put(folder="b")],
        r"README.md, line \d+: 97.3 is in no row of results.json",
    ),
    "another score": (
        ["head('b'); f = Path('b/README.md'); f.write_text(f.read_text().replace('33.3', '43.3'))", put(folder="b")],
        r"README.md, line \d+: .* is not what results.json says",
    ),
    "a licence that is not the base's": (
        ["head('b', base_model='org/nc')", put(base_licence="mit", folder="b")],
        "base_licence='mit': the Hub states cc-by-nc-4.0 for org/nc; leave it out",
    ),
    "a tag for a proposal": ([put(create_pr=True, tag="v1")], "a proposed change gets no tag"),
    "a space that is none": ([put(space="show")], "space='show': give the repository as namespace/name"),
    "names that are none": ([put(names=["x"])], "names: 'x' is not of the form LOCAL=PUBLIC"),
    "a licence that is none": ([put(base_licence="CC BY")], "is not a licence of the Hub"),
    "data without languages": (
        [DATA | {"languages": []}],
        "give the codes of two languages",
    ),
    "data without licence": (
        [DATA | {"licence": None}],
        "no licence is stated",
    ),
    "data for a model": ([put(languages=["zh", "vi"])], "is only for a data set"),
}


@pytest.fixture(scope="module")
def cases(hub_of_all_tests, publisher, tmp_path_factory):
    """How every case ended."""
    root = tmp_path_factory.mktemp("cases")
    (root / "d.tsv").write_text("source\ttarget\n今天下雨\tHôm nay mưa\n", encoding="utf-8")
    steps = []
    for given, _ in CASES.values():
        steps += ["shutil.rmtree('a', True); shutil.rmtree('b', True); head('a')", *given]
    hub = hub_of_all_tests
    hub.clear()
    hub.put("org/nc", {"README.md": b"---\nlicense: cc-by-nc-4.0\n---\n"})
    hub.put("org/base", {"README.md": b"# none\n"})
    told = run(publisher, root, *steps, HF_TOKEN="hf_AnotherTokenThatIsNotShown")
    assert REPO not in {repo_id for _, repo_id in hub.repos}, "nothing was put there"
    return dict(zip(CASES, told, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_may_not_be_published_is_refused(name, cases):
    _, error = cases[name]
    assert re.search(CASES[name][1], error), error or "no error"
    assert "\n" not in error


@pytest.mark.slow
def test_local_names_get_their_public_ones(hub, publisher, tmp_path):
    hub.put("org/nc", {"README.md": b"---\nlicense: cc-by-nc-4.0\n---\n"})
    settings = {"base_model": "/home/me/encoder", "train_data": ["/home/me/texts/x.tsv"]}
    make = (
        f"head('a', base_model='/home/me/encoder', configuration={settings!r}, licence='cc-by-sa-4.0')\n"
        "card = Path('a/README.md'); text = card.read_text()\n"
        "card.write_text(text.replace('## Limits', 'Written by hand.\\n\\n## Limits'))"
    )
    names = ["/home/me/encoder=org/encoder", "/home/me/texts/=texts/", "encoder=org/another"]
    ((_, first), (_, second)) = run(publisher, tmp_path, make, put(), put(names=names, base_licence="mit"))
    assert "/home/me/encoder' is a path" in first
    assert second == ""
    published = hub.files(REPO)
    assert not any(b"/home/me" in data for data in published.values())
    record = json.loads(published["results.json"])
    assert (record["card"]["base_model"], record["settings"]["train_data"]) == ("org/encoder", ["texts/x.tsv"])
    card = published["README.md"].decode()
    front = yaml.safe_load(card.split("---\n")[1])
    assert (front["base_model"], front["base_model_relation"]) == ("org/encoder", "finetune")
    assert "Written by hand.\n\n## Limits" in card
    assert card.count("texts/x.tsv") == 1
    assert "# head\n" in card, "the repository's name"
    assert "org/another" not in card, "an encoder in a sentence is no name"
    (tmp_path / "there").mkdir()
    for name, data in published.items():
        (tmp_path / "there" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "there" / name).write_bytes(data)
    assert hfxling.verify(tmp_path / "there", files_only=True).faults == [], "what is published is whole"


@pytest.mark.slow
def test_a_licence_that_the_record_does_not_state_can_be_named(hub, publisher, tmp_path):
    make = "head('a', licence='other', train_data=[{'name': 'mine', 'pairs': 3}], configuration={'data_licence': None})"
    told = run(
        publisher, tmp_path, make, put(), put(licence="cc-by-sa-4.0"), "head('a')", put(licence="mit")
    )  # fmt: skip
    errors = [error for _, error in told]
    assert "the text 'mine': no licence is stated" in errors[0]
    assert errors[1] == ""
    assert "licence='mit': results.json states cc-by-sa-4.0; leave it out" in errors[2]
    published = hub.files(REPO)
    record = json.loads(published["results.json"])
    assert record["card"]["licence"] == "cc-by-sa-4.0"
    assert record["card"]["train_data"] == [{"name": "mine", "pairs": 3, "licence": "cc-by-sa-4.0"}]
    assert record["settings"]["data_licence"] == record["card"]["configuration"]["data_licence"] == "cc-by-sa-4.0"
    assert is_intact(record)
    card = published["README.md"].decode()
    assert yaml.safe_load(card.split("---\n")[1])["license"] == "cc-by-sa-4.0"
    assert card_faults(card, [EvalResult(**row) for row in record["results"]], record["card"]) == []


@pytest.mark.slow
def test_the_card_links_the_space_that_shows_the_model(hub, publisher, tmp_path):
    ((_, error),) = run(publisher, tmp_path, "head('a')", put(space="org/show"))
    assert error == ""
    assert "[org/show](https://huggingface.co/spaces/org/show)" in hub.files(REPO)["README.md"].decode()
    assert json.loads(hub.files(REPO)["results.json"])["card"]["space"] == "org/show"


@pytest.mark.slow
def test_the_command_prints_what_the_verb_returns(hub, publisher, tmp_path):
    words = ["publish", "a", "--repo", REPO, "--dry_run"]
    ((said, _),) = run(publisher, tmp_path, "head('a')", put(dry_run=True))
    done = publisher.command(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == said
    wrong = publisher.command(*words, "--create_pr", "--tag", "v1", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "a proposed change gets no tag" in wrong.stderr


@pytest.mark.slow
def test_without_a_token_or_the_right_to_write_nothing_begins(hub, publisher, tmp_path):
    for environment, message in (
        ({"HF_TOKEN": ""}, "no token to push to org/head; run hf auth login, or set HF_TOKEN"),
        ({"HF_TOKEN": "read-only"}, "the token can only read"),
    ):
        ((_, error),) = run(publisher, tmp_path, "head('a')", put(), **environment)
        assert message in error
    assert not hub.repos


@pytest.mark.slow
def test_a_dry_run_needs_no_token(hub, publisher, tmp_path):
    hub.put(REPO, {"README.md": b"# x"})
    told = run(publisher, tmp_path, "head('a')", put(dry_run=True), put(dry_run=True, tag="v1"), HF_TOKEN="")
    for said, error in told:
        assert error == ""
        assert "branch main, not compared with the Hub, as you are not logged in: 11 files, 11 new" in said


@pytest.mark.slow
def test_a_hub_that_fails_while_it_is_asked_is_an_error_of_one_line(hub, publisher, tmp_path):
    hub.put(REPO, {"README.md": b"# x"})
    hub.fault = lambda method, path: 403 if "/tree/" in path else None
    ((_, error),) = run(publisher, tmp_path, "head('a')", put())
    assert re.match(r"org/head: the Hub did not say what the repository holds \(.*403", error)
    assert "\n" not in error


@pytest.mark.slow
def test_data_go_with_a_card_of_what_is_counted(hub, publisher, tmp_path):
    (tmp_path / "pairs.tsv").write_text(
        "score\tsource\ttarget\tsource_line\ttarget_line\tflags\n"
        "1.2\t今天下雨\tHôm nay mưa\t1\t1\t\n1.1\t今天下雨\tTrời mưa\t1\t2\tlength,copy\n",
        encoding="utf-8",
    )
    options = DATA | {"folder": "pairs.tsv", "repo": "org/pairs", "licence": "cc-by-sa-4.0"}
    load = (
        "from datasets import load_dataset\n"
        "assert load_dataset('org/pairs', split='train')['target'][:] == ['Hôm nay mưa', 'Trời mưa']"
    )
    told = run(publisher, tmp_path, options, load, options)
    assert [error for _, error in told] == [""] * 2
    assert "nothing to do" in told[1][0]
    files = hub.files("org/pairs", repo_type="dataset")
    assert files.keys() == {".gitattributes", "README.md", "pairs.tsv"}
    card = files["README.md"].decode()
    assert "2 sentence pairs, zh and vi, in 1 file" in card
    assert re.search(r"\| pairs.tsv \| +2 \| +1 \| +2 \| +8 \| +19 \| [0-9a-f]{16} \|", card), card


@pytest.mark.slow
@pytest.mark.parametrize("record", [b"[]", b"null", b"[" * 100_000, b'{"files": [1]}', b"\xff"])
def test_an_odd_record_on_the_hub_is_written_over(hub, publisher, tmp_path, record):
    hub.put(REPO, {"results.json": record, "README.md": b"\xff\xfe"})
    ((told, error),) = run(publisher, tmp_path, "head('a')", put())
    assert error == ""
    assert "0 removed" in told


@pytest.mark.slow
def test_code_that_is_not_ours_is_not_run_without_the_flag(hub, publisher, tmp_path):
    code = "raise SystemExit('it ran')"
    make = f"head('a'); Path('a/modeling_siamese.py').write_text({code!r}); reseal('a')"
    refused, trusted = run(publisher, tmp_path, make, put(dry_run=True), put(dry_run=True, trust_remote_code=True))
    assert "modeling_siamese.py: is code that this hfxling did not write" in refused[1]
    assert "is code that this" not in trusted[1]
