# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Torque's programs answer: XML, exit codes, what is hidden, and what users can put into it."""

from __future__ import annotations

import pytest
from torque_double.cluster import HOSTS, SERVER, until
from torque_double.site import Site

FOREVER = "sleep 600"


def test_without_jobs_the_data_is_empty(site: Site) -> None:
    until(lambda: not site.jobs() or site.cluster.call("qdel", "-p", *site.jobs()))
    answer = site.cluster.call("qstat", "-x")
    assert (answer.rc, answer.out.strip().replace("\n", "")) in (
        (0, ""),
        (0, '<?xml version="1.0"?><Data></Data>'),
        (0, '<?xml version="1.0"?><Data />'),
    )


def test_hosts_of_a_job_are_ranges_of_slots_and_its_first_host_stands_first(site: Site) -> None:
    job = site.submit(FOREVER, "-l", f"nodes={HOSTS[1]}:ppn=2+{HOSTS[0]}")
    found = site.until_state(job, "R")
    assert found["exec_host"] == f"{HOSTS[1]}/0-1+{HOSTS[0]}/0"
    assert (found["Job_Owner"], found["Resource_List.nodect"]) == (f"alice@{SERVER}", "2")
    assert int(found["start_time"]) > 1_700_000_000
    nodes = site.nodes()
    assert (nodes[HOSTS[1]]["jobs"], nodes[HOSTS[0]]["jobs"]) == (f"0-1/{job}", f"0/{job}")


def test_a_node_whose_slots_are_all_taken_is_exclusive(site: Site) -> None:
    job = site.submit(FOREVER, "-l", "nodes=1:ppn=4")
    site.until_state(job, "R")
    until(lambda: site.states() == {HOSTS[0]: "job-exclusive", HOSTS[1]: "free"})


def test_a_user_sees_only_his_own_jobs_until_the_server_says_otherwise(site: Site) -> None:
    job = site.submit(FOREVER)
    assert job in site.cluster.call("qstat", "-x", user="alice").out
    assert job not in site.cluster.call("qstat", "-x", user="bob").out
    assert site.cluster.call("qstat", "-x", job, user="bob").rc == 159
    try:
        assert site.cluster.call("qmgr", "-c", "set server query_other_jobs = True").rc == 0
        assert job in site.cluster.call("qstat", "-x", user="bob").out
    finally:
        site.cluster.call("qmgr", "-c", "unset server query_other_jobs")


def test_an_array_has_an_element_for_each_index_and_its_limit_holds_the_rest(site: Site) -> None:
    array = site.submit(FOREVER, "-N", "ar", "-t", "1-3%2")
    number = array.partition("[")[0]
    parts = [f"{number}[{index}].{SERVER}" for index in (1, 2, 3)]
    site.until_state(parts[1], "R")
    assert array in site.cluster.call("qstat", "-x").out
    assert parts[0] not in site.cluster.call("qstat", "-x").out
    last = site.cluster.call("qstat", "-x", parts[2]).out
    assert "<job_state>H</job_state>" in last
    assert "<Hold_Types>l</Hold_Types>" in last
    assert (site.job(parts[0])["Job_Name"], site.job(parts[0])["job_array_id"]) == ("ar-1", "1")
    site.cluster.call("qdel", array)


def test_text_of_a_user_can_forge_lines_of_qstat_but_no_element_of_its_xml(site: Site) -> None:
    job = site.submit(FOREVER, "-N", "a&<b", "-A", "x\n    exec_host = evil/0", "-h")
    text = site.cluster.call("qstat", "-f", job).out
    assert "\n    exec_host = evil/0\n" in text
    found = site.job(job)
    assert (found["Job_Name"], found["Account_Name"], "exec_host" in found) == (
        "a&<b",
        "x\n    exec_host = evil/0",
        False,
    )


def test_a_user_can_put_into_the_xml_what_no_reader_takes(site: Site) -> None:
    job = site.submit(FOREVER, "-A", "bell\x07", "-h")
    assert "<Account_Name>bell\x07</Account_Name>" in site.cluster.call("qstat", "-x", job).out


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (153, ("qstat", "999999")),
        (153, ("qdel", "999999")),
        (153, ("qhold", f"999999.{SERVER}")),
        (1, ("qdel", "no-id!")),
        (2, ("qmgr", "-c", "set server nonsense = 1")),
        (2, ("qmgr", "-c", "set node nowhere np = 1")),
        (2, ("qmgr", "-c", "frobnicate")),
        (1, ("pbsnodes", "-x", "nowhere")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_exit_codes(site: Site, status: int, words: tuple[str, ...]) -> None:
    assert site.cluster.call(*words).rc == status


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (172, ("-q", "nowhere")),
        (189, ("-l", "nonsense=1")),
        (190, ("-l", "nodes=1:ppn=99")),
        (177, ("-P", "bob")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_exit_codes_of_a_refused_submission(site: Site, status: int, words: tuple[str, ...]) -> None:
    assert site.cluster.call("qsub", *words, text="true\n", user="alice").rc == status


def test_root_submits_only_for_somebody_else(site: Site) -> None:
    assert site.cluster.call("qsub", text="true\n").rc == 1
    answer = site.cluster.call("qsub", "-P", "bob", "-d", "/tmp", "-o", "/dev/null", "-e", "/dev/null", text="sleep 60")
    assert answer.rc == 0, answer
    found = site.job(answer.out.strip())
    assert (found["Job_Owner"], found["proxy_user"]) == (f"bob@{SERVER}", "bob")


def test_marks_of_nodes_end_with_0_also_where_they_were_refused(site: Site) -> None:
    for words in (("-o", HOSTS[0]), ("-N", "text", HOSTS[0])):
        answer = site.cluster.call("pbsnodes", *words, user="alice")
        assert (answer.rc, "Unauthorized Request" in answer.err) == (0, True)
    answer = site.cluster.call("pbsnodes", "-o", "nowhere")
    assert (answer.rc, "nknown node" in answer.err) == (0, True)
    assert site.cluster.call("pbsnodes", "-x", user="alice").rc == 0
    assert set(site.states().values()) == {"free"}


def test_a_mark_keeps_the_note_and_jobs_go_on_behind_it(site: Site) -> None:
    job = site.submit(FOREVER, "-l", "nodes=1:ppn=4")
    site.until_state(job, "R")
    note = 'converged.hpc: ä <&> "quoted"'
    assert site.cluster.call("pbsnodes", "-o", "-N", note, HOSTS[0]).rc == 0
    until(lambda: site.states()[HOSTS[0]] in ("offline,job-exclusive", "job-exclusive,offline"))
    assert site.nodes()[HOSTS[0]]["note"] == note
    assert site.job(job)["job_state"] == "R"
    site.cluster.call("pbsnodes", "-c", HOSTS[0])
    assert site.nodes()[HOSTS[0]]["note"] == note
    site.cluster.call("pbsnodes", "-N", "n", HOSTS[0])
    assert "note" not in site.nodes()[HOSTS[0]]


def test_only_the_server_itself_answers_by_its_name(site: Site) -> None:
    assert site.cluster.call("qstat", "-B", SERVER).rc == 0
    assert site.cluster.call("qstat", "-B", HOSTS[0]).rc != 0
