"""What a stranger finds beside the code: one version, tested pins, forms, workflows that name what exists."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import dpdistill
from dpdistill.certificate import versions
from dpdistill.certificate.build import versions as of_a_certificate

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PINS = dict(re.findall(r"^([\w.-]+)==(.+)$", (ROOT / "constraints.txt").read_text(), re.M))
PINNED = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in PINS.items()}
"""Tested versions by normalised name."""


def parsed(path: Path) -> dict:
    return yaml.safe_load(path.read_text())


# One place for the version


def test_the_version_stands_in_one_place():
    source = (ROOT / "src" / "dpdistill" / "__init__.py").read_text()
    assert re.findall(r'^__version__ = "(\d+\.\d+\.\d+)"$', source, re.M) == [dpdistill.__version__]
    assert "version" in PROJECT["project"]["dynamic"]
    assert "version" not in PROJECT["project"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/dpdistill/__init__.py"


def test_a_certificate_states_the_version_of_the_code_that_runs(monkeypatch):
    monkeypatch.setattr(versions, "version", lambda name: "9.9")
    assert versions.versions_of(["dpdistill", "numpy"]) == {"dpdistill": dpdistill.__version__, "numpy": "9.9"}
    assert of_a_certificate()["dpdistill"] == dpdistill.__version__


# Citation


def test_the_citation_is_complete_and_of_this_version():
    found = parsed(ROOT / "CITATION.cff")
    assert found["cff-version"] == "1.2.0"
    assert found["version"] == dpdistill.__version__
    assert found["license"] == PROJECT["project"]["license"]
    assert found["authors"] == PROJECT["project"]["authors"] == [{"name": "The dpdistill authors"}]
    assert found["keywords"] == PROJECT["project"]["keywords"]
    assert found["type"] == "software"
    assert {"message", "title", "abstract"} <= set(found)
    assert all(isinstance(found[name], str) for name in ("message", "title", "abstract", "version"))


# Pins


def test_every_dependency_is_pinned_within_its_bounds():
    extras = PROJECT["project"]["optional-dependencies"]
    texts = [*PROJECT["project"]["dependencies"], *(text for extra in extras.values() for text in extra)]
    listed = [Requirement(text) for text in texts]
    others = [each for each in listed if each.name != "dpdistill"]
    assert len(others) > 30
    for each in others:
        assert Version(PINNED[each.name.lower()]) in each.specifier, each


def test_hooks_run_the_tested_versions():
    repositories = parsed(ROOT / ".pre-commit-config.yaml")["repos"]
    found = {hook["id"]: each["rev"] for each in repositories for hook in each["hooks"]}
    ruff, pyright = f"v{PINNED['ruff']}", f"v{PINNED['pyright']}"
    assert found == {"ruff-check": ruff, "ruff-format": ruff, "pyright": pyright}


# The demo installs little, the tests everything


def steps(venv: Path, target: str) -> str:
    """Returns what `make TARGET` would run, without running it."""
    command = ["make", "--no-print-directory", "--dry-run", target, f"VENV={venv}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_demo_installs_less_than_the_tests(tmp_path):
    assert re.findall(r"-e '(.*)'", steps(tmp_path, "demo")) == [".[digits]"]
    assert re.findall(r"-e '(.*)'", steps(tmp_path, "suite")) == [".[dev]"]
    (tmp_path / ".demo").touch()
    assert "pip" not in steps(tmp_path, "demo")
    assert re.findall(r"-e '(.*)'", steps(tmp_path, "suite")) == [".[dev]"], "After a demo the tests install the rest."
    (tmp_path / ".installed").touch()
    assert "pip" not in steps(tmp_path, "suite")
    tests_alone = steps(tmp_path / "other", "install").splitlines()
    assert tests_alone[-1].split()[1:] == [str(tmp_path / "other" / name) for name in (".demo", ".installed")]


# Workflows and forms


def commands(workflow: dict) -> str:
    return "\n".join(step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_names_what_exists(path):
    workflow = parsed(path)
    assert {"name", "permissions", "jobs"} <= set(workflow)
    assert workflow["permissions"] == {"contents": "read"}
    text = commands(workflow)
    targets = re.findall(r"\bmake ([\w-]+)", text)
    assert targets
    rules = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert set(targets) <= set(rules)
    scripts = re.findall(r"(\.ci/[\w-]+)", text)
    assert scripts
    assert all((ROOT / name).is_file() for name in scripts)
    assert all((ROOT / name).exists() for name in re.findall(r"\btests/[\w/.]+", text))
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 90, name
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= set(workflow["jobs"])


def test_a_release_is_tested_tried_and_attested_before_it_is_published():
    release = parsed(ROOT / ".github" / "workflows" / "release.yml")
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
    jobs = release["jobs"]
    assert jobs["publish"]["needs"] == "attest"
    assert set(jobs["attest"]["needs"]) == {"test", "try"}
    assert jobs["try"]["needs"] == "build"
    for name in ("test", "build"):
        assert '.ci/release check "$GITHUB_REF_NAME"' in [step.get("run") for step in jobs[name]["steps"]]
    used = {name: [step.get("uses", "").partition("@")[0] for step in job["steps"]] for name, job in jobs.items()}
    assert "actions/attest-build-provenance" in used["attest"]
    assert used["publish"][-1] == "pypa/gh-action-pypi-publish"
    allowed = {name: job["permissions"] for name, job in jobs.items() if "permissions" in job}
    assert allowed == {
        "attest": {"attestations": "write", "contents": "read", "id-token": "write"},
        "publish": {"id-token": "write"},
    }


@pytest.fixture
def checkout(tmp_path):
    """A checkout of version 1.2.3 that is ready for its release, as far as the script reads it."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "release").write_text((ROOT / ".ci" / "release").read_text())
    (tmp_path / "src" / "dpdistill").mkdir(parents=True)
    (tmp_path / "src" / "dpdistill" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CITATION.cff").write_text("version: 1.2.3\n")
    (tmp_path / "CHANGELOG.md").write_text("## Unreleased\n\n## 1.2.3\n")
    return tmp_path


def release_check(checkout: Path, tag: str) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", checkout / ".ci" / "release", "check", tag], capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stderr.strip()


def test_the_tag_of_a_release_is_its_version(checkout):
    assert release_check(checkout, "v1.2.3") == (0, "")
    code, said = release_check(checkout, "v1.2.4")
    assert (code, said) == (1, "Expected the tag v1.2.3, the version in src/dpdistill/__init__.py; got v1.2.4.")
    assert release_check(checkout, "1.2.3")[0] == 1


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("CITATION.cff", "version: 1.2.2\n", "Expected the line 'version: 1.2.3' in CITATION.cff."),
        ("CHANGELOG.md", "## Unreleased\n\n## 1.2.30\n", "Expected the heading '## 1.2.3' in CHANGELOG.md."),
    ],
)
def test_a_release_is_named_everywhere(checkout, name, text, expected):
    (checkout / name).write_text(text)
    assert release_check(checkout, "v1.2.3") == (1, expected)


def test_the_project_s_addresses_are_those_of_the_repository_that_builds_it(monkeypatch):
    module = ModuleType("hatchling.metadata.plugin.interface")
    module.MetadataHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert build.urls() == {}
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "some/where")
    metadata: dict = {}
    build.Addresses().update(metadata)
    assert metadata["urls"]["Source"] == "https://github.com/some/where"
    assert metadata["urls"]["Security"] == "https://github.com/some/where/security/policy"
    assert {each.split("://")[0] for each in metadata["urls"].values()} == {"https"}


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_one_that_github_shows(path):
    form = parsed(path)
    assert set(form) == {"name", "description", "labels", "body"}
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    assert {each["type"] for each in fields} <= {"input", "textarea", "dropdown", "checkboxes"}
    assert len({each["id"] for each in fields}) == len(fields) > 2
    assert all(each["attributes"]["label"] for each in fields)
    assert all(each["validations"]["required"] for each in fields if each["type"] != "checkboxes")


def test_forms_send_what_can_be_used_in_an_attack_to_private_reporting():
    assert [path.stem for path in FORMS] == ["bug", "guarantee", "method"]
    assert "SECURITY.md" in (ROOT / ".github" / "ISSUE_TEMPLATE" / "guarantee.yml").read_text()
    (agreed,) = [each for each in parsed(FORMS[1])["body"] if each["type"] == "checkboxes"]
    assert all(option["required"] for option in agreed["attributes"]["options"])
    policy = (ROOT / "SECURITY.md").read_text()
    assert "Report a vulnerability" in policy
    assert "@" not in policy


def test_updates_are_asked_for_what_a_workflow_uses():
    found = {each["package-ecosystem"]: each for each in parsed(ROOT / ".github" / "dependabot.yml")["updates"]}
    assert set(found) == {"github-actions", "docker", "pip"}
    assert found["pip"]["open-pull-requests-limit"] == 0


# Changelog


def test_the_changelog_has_one_line_for_each_entry_and_is_short():
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.+)$", text, re.M)
    assert headings[0] == "Unreleased"
    numbers = [Version(each) for each in headings[1:]]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[-1] == Version("0.9.0")
    entries = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(entries) >= 30
    assert {line for line in entries if len(line) > 250 or not line.endswith(".")} == set()
    assert not re.search(r"^ +\S", text, re.M), "An entry is one line."
