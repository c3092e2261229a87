# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plugins of the site are found by the entry points of installed packages, checked at start, and watched over."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import placement_kit
import pytest
from placement.app.cli import main
from placement.app.process import daemon
from placement.app.settings.settings import Settings, SettingsError, read_policy
from placement_kit.builders import amounts, mine, node
from placement_kit.simulated import Simulated

EXAMPLE = Path(placement_kit.__file__).with_name("site_nodes.py")
GUIDE = Path(__file__).parents[3] / "docs/guides/placement-plugins.md"
POLICY = """\
actions: "allocate, backfill, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins:
  - name: nodeorder
  - name: site-nodes
    arguments: {licences: 5}
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package of one module with an entry point, as pip would."""
    known = set(sys.modules)

    def put(entry: str, text: str = "", *, package: str = "site-nodes") -> None:
        folder = tmp_path / package
        information = folder / f"{package.replace('-', '_')}-1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text(f"[converged_placement.plugins]\n{entry}\n")
        module = folder / f"{entry.partition('=')[2].partition(':')[0].strip()}.py"
        if text:
            module.write_text(text)
        else:
            shutil.copy(EXAMPLE, module)
        monkeypatch.syspath_prepend(str(folder))

    yield put
    for name in set(sys.modules) - known:
        del sys.modules[name]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yml"
    path.write_text(POLICY)
    return path


def checked(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = main(["check", str(path)])
    return (status, *capsys.readouterr())


def test_an_installed_plugin_decides_once_the_policy_names_it(install, policy):
    install("site-nodes = site_nodes:SiteNodes")
    simulated = Simulated(read_policy(policy))
    simulated.see(node("n1"))
    licensed = (("site.example/licence", "matlab"),)
    simulated.see(*(mine(f"p{index}", labels=licensed, request=amounts(cpu="1m")) for index in range(7)))
    simulated.run()
    assert len(simulated.placements()) == 5
    unnamed = Simulated()
    unnamed.see(node("n1"))
    unnamed.see(*(mine(f"p{index}", labels=licensed, request=amounts(cpu="1m")) for index in range(7)))
    unnamed.run()
    assert len(unnamed.placements()) == 7


def test_check_says_what_a_plugin_has(install, policy, capsys):
    install("site-nodes = site_nodes:SiteNodes")
    status, out, _err = checked(policy, capsys)
    assert status == 0
    assert "tier 2: nodeorder, site-nodes\n" in out
    assert "note: site-nodes: a plugin of this site, site_nodes.SiteNodes, with mask, allowed, score\n" in out


@pytest.mark.parametrize(
    ("entry", "text", "said"),
    [
        ("other = site_nodes:SiteNodes", "", "unknown plugin 'site-nodes'; known are conformance, drf, gang,"),
        (
            "site-nodes = broken:Nodes",
            "import nothing_of_this_name\n",
            "plugin 'site-nodes': entry point broken:Nodes cannot be loaded: ModuleNotFoundError: No module named"
            " 'nothing_of_this_name'; mend or reinstall its package",
        ),
        (
            "site-nodes = broken:Nodes",
            "raise SystemExit('not\\ntoday')\n",
            "plugin 'site-nodes': entry point broken:Nodes cannot be loaded: SystemExit: not today; mend or",
        ),
        (
            "site-nodes = broken:Nodes",
            "x = 1\n",
            "plugin 'site-nodes': entry point broken:Nodes cannot be loaded: AttributeError: ",
        ),
        (
            "site-nodes = broken:Nodes",
            "Nodes = 1\n",
            "plugin 'site-nodes': its entry point is of type int; let it name a class derived from SitePlugin",
        ),
        (
            "site-nodes = broken:Nodes",
            "from placement.policy.plugins.site_plugin import SitePlugin\n"
            "class Nodes(SitePlugin):\n    def mask(self, pod):\n        return None\n",
            "plugin 'site-nodes': its method is mask(self, pod); expected mask(self, spec, request, nodes)",
        ),
        (
            "site-nodes = broken:Nodes",
            "from placement.policy.plugins.site_plugin import SitePlugin\n"
            "class Nodes(SitePlugin):\n    arguments = {'licences': 1}\n"
            "    def score(self, spec, request, nodes):\n        return [1] * len(nodes)\n",
            "plugin 'site-nodes': score failed on trial: the answer is of type list; expected None or a"
            " numpy array of 64 points, finite numbers; mend it",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(install, policy, capsys, entry, text, said):
    install(entry, text)
    status, _out, err = checked(policy, capsys)
    assert status == 1
    assert err.startswith(f"placement: {policy}:6: {said}"), err
    assert err.count("\n") == 1


def test_of_two_packages_with_one_name_neither_is_used(install, policy):
    install("site-nodes = site_nodes:SiteNodes")
    install("site-nodes = other_nodes:SiteNodes", package="other")
    with pytest.raises(SettingsError, match="several entry points have this name: other_nodes:SiteNodes, site_nodes"):
        read_policy(policy)


def test_no_package_takes_the_place_of_a_plugin_of_ours(install, policy, capsys):
    install("nodeorder = broken:Nodes", "raise SystemExit\n")
    policy.write_text("actions: allocate\ntiers:\n- plugins: [{name: nodeorder}]\n")
    assert checked(policy, capsys)[0] == 0


def test_a_plugin_that_fails_is_logged_once_and_counted(install, policy, monkeypatch):
    install(
        "site-nodes = fails:Nodes",
        "from placement.policy.plugins.site_plugin import SitePlugin\n"
        "class Nodes(SitePlugin):\n"
        "    arguments = {'licences': 1}\n"
        "    def allowed(self, pod, nodes):\n"
        "        if pod.namespace == 'team':\n"
        "            raise KeyError(pod.namespace)\n",
    )
    monkeypatch.setattr(daemon, "Credentials", lambda _path: SimpleNamespace())
    settings = Settings(leader_election=False, listen="", socket="", configuration=read_policy(policy))
    logged: list[str] = []
    log = SimpleNamespace(info=lambda *_unused, **_more: None, error=lambda text, **_more: logged.append(text))
    made = daemon.Daemon(settings, None, log)
    simulated = Simulated()
    simulated.scheduler = made._parts.loop.scheduler
    simulated.see(node("n1"), mine("p1"), mine("p2", request=amounts(cpu="2")), mine("p3", namespace="other"))
    simulated.run()
    assert sorted(simulated.placements()) == ["p3"]
    for _unused in range(2):
        made.say_faults()
    assert logged == ["plugin site-nodes: allowed failed: KeyError: 'team'; pods that it is asked about wait"]
    lines = [line for line in made._parts.metrics.text().splitlines() if "plugin_failures" in line]
    assert lines[-1].startswith('placement_plugin_failures_total{method="allowed",plugin="site-nodes"} ')
    assert float(lines[-1].split()[-1]) >= 2


@pytest.mark.prose
def test_the_guide_shows_the_example_and_its_output_as_they_are(install, tmp_path, capsys, monkeypatch):
    guide = GUIDE.read_text(encoding="utf-8")
    licence, quotes, code = EXAMPLE.read_text(encoding="utf-8").partition('"""')
    assert "SPDX-License-Identifier" in licence
    assert f"```python\n{quotes}{code}```" in guide
    text = guide.partition("```yaml\nactions:")[2].partition("```")[0]
    (tmp_path / "policy.yml").write_text(f"actions:{text}")
    install("site-nodes = site_nodes:SiteNodes")
    monkeypatch.chdir(tmp_path)
    assert main(["check", "policy.yml"]) == 0
    assert f"$ placement check policy.yml\n{capsys.readouterr().out}```" in guide


@pytest.mark.prose
def test_the_guide_shows_what_is_said_of_a_wrong_method(install, tmp_path, capsys, monkeypatch):
    guide = GUIDE.read_text(encoding="utf-8")
    text = guide.partition("```yaml\nactions:")[2].partition("```")[0]
    (tmp_path / "policy.yml").write_text(f"actions:{text}")
    wrong = "class Nodes(SitePlugin):\n    def mask(self, pod):\n        return None\n"
    install("site-nodes = broken:Nodes", f"from placement.policy.plugins.site_plugin import SitePlugin\n{wrong}")
    monkeypatch.chdir(tmp_path)
    assert main(["check", "policy.yml"]) == 1
    assert f"$ placement check policy.yml\n{capsys.readouterr().err}```" in guide
