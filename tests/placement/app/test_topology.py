# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree of nodes: read from the settings, shown, written and checked by the command line."""

import json
from functools import partial

import pytest
from placement.app import cli
from placement.app.endpoints.control_socket import LocalSocket
from placement.app.settings.settings import Settings, SettingsError, read_settings
from placement.app.topology import TopologyView, read_topology
from placement.graph.formats.jgf import read_jgf
from placement.graph.tree.source import GraphSource
from placement.model.messages.event import Deleted, Upserted
from placement.model.objects.node import Node
from placement.state.cluster import Cluster
from placement_kit.builders import amounts, node, pod

SWITCHES = "SwitchName=spine Switches=s[1-2]\nSwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n3\n"


def cluster_of_three() -> Cluster:
    cluster = Cluster()
    for index in (1, 2, 3):
        cluster.apply(Upserted(node(f"n{index}", labels=(("example.com/rack", f"r{index // 2}"),))))
    cluster.apply(Upserted(pod("p1", node="n1", request=amounts(cpu="3"))))
    return cluster


def view_of(cluster: Cluster, settings: Settings) -> TopologyView:
    return TopologyView(cluster, GraphSource(cluster.columns, read_topology(settings)))


def result(steps):
    """Go through all steps and return what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value


def test_levels_come_from_labels() -> None:
    topology = read_topology(Settings(topology_levels="zone=example.com/zone, rack=example.com/rack"))
    assert (topology.levels, topology.labels) == (("zone", "rack"), ("example.com/zone", "example.com/rack"))
    assert read_topology(Settings()).levels == ()


@pytest.mark.parametrize("text", [SWITCHES, '{"graph":{"nodes":[{"id":"0","metadata":{"type":"cluster"}}]}}'])
def test_a_file_says_by_its_beginning_what_it_is(tmp_path, text) -> None:
    path = tmp_path / "topology"
    path.write_text(text)
    levels = read_topology(Settings(topology_file=str(path))).levels
    assert levels == (("switch2", "switch") if text is SWITCHES else ())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"\xff", "not UTF-8: "),
        (b"SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n", "line 2: node n1 is in b"),
        (b"{", "truncated"),
    ],
)
def test_a_bad_file_is_refused_with_its_name(tmp_path, content, message) -> None:
    path = tmp_path / "topology"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=f"^{path}: .*{message}"):
        read_topology(Settings(topology_file=str(path)))


def test_levels_without_labels_need_a_file() -> None:
    with pytest.raises(
        SettingsError, match="topology_levels: the level rack has no label, and no file says where nodes are"
    ):
        read_topology(Settings(topology_levels="rack"))


@pytest.mark.parametrize("value", ["rack = x", "a/b=c", "rack=a b"])
def test_a_malformed_list_of_levels_is_refused_with_its_line(tmp_path, value) -> None:
    path = tmp_path / "placement.yml"
    path.write_text(f"listen: ''\ntopology_levels: {value}\n")
    with pytest.raises(SettingsError, match=f"^{path}:2: topology_levels: .*is not LEVEL=LABEL"):
        read_settings(path)


def test_the_check_of_settings_reads_the_file_that_they_name(tmp_path, capsys) -> None:
    path = tmp_path / "placement.yml"
    path.write_text(f"topology_file: {tmp_path}/nowhere\n")
    assert cli.main(["check", str(path)]) == cli.FAILED
    assert f"{tmp_path}/nowhere: No such file" in capsys.readouterr().err


@pytest.fixture
def ask(tmp_path):
    """The command line, asking about three nodes."""
    view = view_of(cluster_of_three(), Settings(topology_levels="rack=example.com/rack"))

    def answer(question):
        match question:
            case {"do": "show", "nodes": bool(nodes)}:
                return {"lines": result(view.show(nodes=nodes))}
            case {"do": "picture"}:
                return {"picture": result(view.picture("placement"))}
            case {"do": "dump"}:
                return {"jgf": result(view.dump())}
        return {"drift": result(view.check())}

    server = LocalSocket(tmp_path / "socket", answer)
    server.start()
    yield partial(_command, str(tmp_path / "socket")), view
    server.close()


def _command(socket: str, *words: str) -> int:
    return cli.main(["graph", *words, "--socket", socket])


def test_the_tree_is_shown(ask, capsys) -> None:
    command, _view = ask
    assert command("show", "--nodes") == 0
    assert capsys.readouterr().out.splitlines() == [
        "cluster  3 nodes  cpu 3/12  memory 0/24 GiB  pods 1/30",
        "  rack r0  1 node  cpu 3/4  memory 0/8 GiB  pods 1/10",
        "    node n1  cpu 3/4  memory 0/8 GiB  pods 1/10",
        "  rack r1  2 nodes  cpu 0/8  memory 0/16 GiB  pods 0/20",
        "    node n2  cpu 0/4  memory 0/8 GiB  pods 0/10",
        "    node n3  cpu 0/4  memory 0/8 GiB  pods 0/10",
    ]


def test_the_tree_is_written_as_jgf(ask, capsys) -> None:
    command, _view = ask
    assert command("dump") == 0
    found = read_jgf(capsys.readouterr().out, "dump")
    assert found.topology.paths == {"n1": ("r0",), "n2": ("r1",), "n3": ("r1",)}


def test_the_check_agrees_and_fails_where_it_does_not(ask, capsys) -> None:
    command, view = ask
    assert command("check") == 0
    assert capsys.readouterr().out == "the graph agrees with the pods\n"
    columns = view.cluster.columns
    columns.charge(columns.rows["n2"], columns.axis.request(amounts(cpu="1")), 1)
    assert command("check", "--json") == cli.FAILED
    assert [drift["where"] for drift in json.loads(capsys.readouterr().out)] == ["n2"]
    assert view.drifts == {"columns": 1}


def test_a_part_is_checked_at_a_time_once_the_graph_was_asked_for() -> None:
    view = view_of(cluster_of_three(), Settings())
    columns = view.cluster.columns
    columns.charge(columns.rows["n2"], columns.axis.request(amounts(cpu="1")), 1)
    assert view.check_some() == []
    result(view.show(nodes=False))
    assert [drift.where for drift in view.check_some()] == ["n2"]


def test_the_graph_follows_what_happens_between_two_questions() -> None:
    cluster = cluster_of_three()
    view = view_of(cluster, Settings(topology_levels="rack=example.com/rack"))
    assert len(result(view.show(nodes=False))) == 3
    cluster.apply(Deleted(Node, "uid-n1", 9))
    assert [line.split()[0] for line in result(view.show(nodes=True))] == ["cluster", "rack", "node", "node"]
    steps = view.dump()
    cluster.apply(Upserted(node("lost")))
    result(steps)
    assert result(view.show(nodes=False))[-1] == "note: node lost: topology_levels does not say its rack"


def test_the_tree_of_many_nodes_is_shown_in_steps_and_a_node_may_go_between_two() -> None:
    cluster = Cluster()
    for index in range(600):
        cluster.apply(Upserted(node(f"n{index}")))
    view = view_of(cluster, Settings(topology_levels="rack=example.com/rack"))
    lines = result(view.show(nodes=True))
    assert len(lines) == 1 + 600 + 600
    # Lines and nodes that are looked at for notes, 256 at a time.
    assert len([*view.show(nodes=True)]) >= 4
    for number, _step in enumerate(view.show(nodes=True)):
        cluster.apply(Deleted(Node, f"uid-n{599 - number}", 9))
    assert len(result(view.show(nodes=True))) < len(lines)


def test_the_tree_is_drawn_as_a_page(ask, capsys) -> None:
    command, _view = ask
    assert command("show", "--html") == 0
    text = capsys.readouterr().out
    assert text.startswith("<!doctype html>")
    assert 'title="node n1, cpu 3/4, memory 0/8 GiB"' in text


@pytest.mark.parametrize("do", ["dump", "check"])
def test_only_the_tree_that_is_shown_is_a_page(ask, capsys, do) -> None:
    command, _view = ask
    with pytest.raises(SystemExit):
        command(do, "--html")
    assert "--html: only with show" in capsys.readouterr().err
