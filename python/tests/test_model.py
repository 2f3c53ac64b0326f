"""Machines, runs and results."""

import math
import os
import pickle
import signal
import subprocess
import sys
import threading
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path

import numpy
import pytest

import rackmem
from rackmem.setting import as_toml


def test_built_in_machines_and_programs_are_named():
    assert "manycore-ni" in rackmem.machines() and "netpipe" in rackmem.programs()


def test_a_machine_has_its_keys_and_set_gives_another(machine):
    edge = machine.set("ni.placement", "edge")
    assert (machine["ni.placement"], edge["ni.placement"]) == ("split", "edge")
    assert machine != edge and edge == machine.set({"ni.placement": "edge"})
    assert edge.set("ni.placement", "split") == machine
    assert machine.set("noc.vcs", 4)["noc"]["vcs"] == 4
    assert eval(repr(edge), {"Machine": rackmem.Machine}) == edge


def test_a_machine_is_a_file_that_loads_to_the_same(machine, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(machine.toml)
    assert rackmem.Machine.load(file) == machine


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda machine: machine.set("noc.vc", 2), "noc.vc: no such key; did you mean noc.vcs?"),
        (lambda machine: machine.set("noc.vcs", "many"), "noc.vcs: "),
        (lambda machine: machine.set("ni.placement", "edgy"), "ni.placement: unknown variant"),
        (lambda _: rackmem.Machine.load("manycore"), "did you mean manycore-ni?"),
    ],
)
def test_a_machine_that_cannot_be_is_refused(machine, wrong, said):
    with pytest.raises(rackmem.MachineError) as raised:
        wrong(machine)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value", "same"),
    [
        ("noc.vcs", numpy.uint8(4), 4),
        ("noc.vcs", numpy.array(4), 4),
        ("noc.vcs", Decimal(4), 4),
        ("clock_ghz", numpy.float32(2.5), 2.5),
        ("clock_ghz", numpy.longdouble(2.5), 2.5),
        ("clock_ghz", Fraction(5, 2), 2.5),
        ("ni.placement", numpy.str_("edge"), "edge"),
        ("ni.placement", Enum("Place", {"EDGE": "edge"}, type=str).EDGE, "edge"),
        ("name", Path("mine"), "mine"),
    ],
)
def test_values_of_other_types_are_taken_as_what_they_say(machine, key, value, same):
    changed = machine.set(key, value)
    assert changed[key] == same and changed.settings[key] == str(same)


def test_members_of_lists_may_be_numbers_of_numpy():
    members = [numpy.int64(1), numpy.bool_(True), "é\"", 2.5]
    assert as_toml("a.key", members) == '[1, true, "é\\"", 2.5]'
    assert as_toml("a.key", numpy.array([1, 2])) == "[1, 2]"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("noc.vcs", None, "noc.vcs: None is no value"),
        ("noc.vcs", [1, None], r"noc.vcs: \[1, None\] is no value"),
        ("noc.vcs", numpy.array([[1, 2]]), "noc.vcs: .* is no value"),
        ("clock_ghz", math.nan, "clock_ghz: nan is no value"),
        ("clock_ghz", numpy.float64(math.inf), "clock_ghz: .* is no value"),
        ("seed", 1 << 63, "seed: 9223372036854775808 is no value"),
        pytest.param("seed", 10**5000, "seed: a value of int that cannot be shown is no value", id="long"),
        ("noc.vcs", b"2", "noc.vcs: b'2' is no value"),
        ("noc.vcs", {"a": 1}, "noc.vcs: {'a': 1} is no value"),
        ("noc.vcs", 2j, "noc.vcs: 2j is no value"),
        ("name", "\ud800", "name: .* is no value"),
        (3, 4, "3: 4: a key is a text"),
        (b"noc.vcs", 4, "b'noc.vcs': 4: a key is a text"),
    ],
)
def test_values_that_no_key_has_are_refused(machine, tmp_path, key, value, said):
    with pytest.raises(rackmem.MachineError, match=said):
        machine.set(key, value)
    with pytest.raises(rackmem.MachineError, match=said):
        rackmem.Sweep(machine, {key: [value]}, folder=tmp_path)
    with pytest.raises(TypeError, match="needs a value"):
        machine.set(key)


def test_a_machine_stays_what_it_is_when_its_file_changes(machine, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(machine.toml)
    mine = rackmem.Machine.load(file)
    file.write_text(machine.set("noc.hop_cycles", 20).toml)
    assert mine.run() == machine.run() != rackmem.Machine.load(file).run()
    section = mine["noc"]
    section["vcs"] = 77
    assert mine["noc.vcs"] != 77 and "noc.vcs" in mine and "noc.vc" not in mine


@pytest.mark.parametrize("nodes", [0, -1, 70_000, "2"])
def test_a_rack_has_a_possible_number_of_nodes(nodes):
    with pytest.raises(rackmem.MachineError, match="number of nodes"):
        rackmem.Machine.load("sonuma").execute("hello", nodes=nodes)


def test_numbers_of_numpy_are_numbers_and_an_environment_is_a_mapping():
    sonuma = rackmem.Machine.load("sonuma")
    assert len(sonuma.execute("hello", nodes=numpy.int64(2)).nodes) == 2
    with pytest.raises(rackmem.Error, match="environment"):
        sonuma.execute("hello", environment=["A=1"])


@pytest.mark.parametrize("path", ["", "latency.", "latency..mean_cycles", "latency.mean_cycles[", "machine[0]"])
def test_paths_that_are_none_lead_nowhere(machine, path):
    with pytest.raises(rackmem.PathError):
        machine.run()[path]


def test_results_are_read_by_path(machine):
    result = machine.run()
    assert result["latency.mean_cycles"] == result.report["latency"]["mean_cycles"]
    assert result["rmc[0].requests"] == result.stats["rmc[0].requests"]
    assert set(result.query(r"^rmc\[0\]")) == {"rmc[0].lines_stored", "rmc[0].requests"}
    total = sum(stage.mean_cycles for stage in result.breakdown)
    assert total == pytest.approx(result["latency.mean_cycles"])
    assert "noc.packets.request" in result and "noc.packets.requests" not in result
    with pytest.raises(rackmem.PathError, match="did you mean latency.mean_cycles"):
        result["latency.mean_cycle"]
    with pytest.raises(KeyError):
        result["nothing"]


def test_results_are_tables_and_html(machine):
    pytest.importorskip("pandas")
    result = machine.run()
    table = result.df().set_index("path")
    assert table.loc["latency.mean_cycles", "unit"] == "cycles"
    assert table.loc["core.reads", "meaning"]
    shown = result._repr_html_()
    assert "wq_write" in shown and shown.count("<tr>") == len(result.breakdown) + len(result.headline())


def test_the_same_run_has_the_same_bytes(machine, tmp_path):
    for name in ("a", "b"):
        machine.run().save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert rackmem.Result.load(tmp_path / "a").report == machine.run().report
    with pytest.raises(rackmem.StoreError, match="No such file"):
        rackmem.Result.load(tmp_path / "c")
    for wrong in (b"{", b"\xff\xfe", b"3", b"null", b"[]", b"{}", b'{"nodes": 3}', b"[" * 100_000,
                  b'{"stats": {}, "recipe": {"machine": ""}, "machine": "x"}'):
        (tmp_path / "d").write_bytes(wrong)
        with pytest.raises(rackmem.StoreError, match="no report"):
            rackmem.Result.load(tmp_path / "d")


def test_nodes_execute_different_programs():
    machine = rackmem.Machine.load("sonuma")
    beside = [rackmem.Program("hello", "b", nodes=2, environment={"B": "2"})]
    execution = machine.execute("hello", "a", environment={"A": "1"}, beside=beside)
    expected = [("hello", ["a"], ["A=1"], 1), ("hello", ["b"], ["B=2"], 2)]
    programs = execution.report["programs"]
    assert [(p["program"], p["arguments"], p["environment"], p["nodes"]) for p in programs] == expected
    assert sorted(node["stdout"][:13] for node in execution.nodes) == [f"node {n} of 3 t" for n in range(3)]
    assert dict(execution.headline())["program"] == "hello a : hello b"
    session = machine.session("hello", "a", environment={"A": "1"}, beside=beside)
    session.run()
    assert session.finish().report == execution.report
    with pytest.raises(rackmem.Error, match="'hello' is no Program"):
        machine.execute("hello", beside=["hello"])


def test_programs_are_executed():
    machine = rackmem.Machine.load("sonuma")
    execution = machine.execute("netpipe", "--sizes=8", "--seconds=0.00001", "--json", nodes=2)
    assert execution.output["program"] == "netpipe" and len(execution.nodes) == 2
    assert execution["node[0].rmc.requests"] > 0
    with pytest.raises(rackmem.ProgramError, match="ended with status") as raised:
        machine.execute("netpipe", "--no-such-option")
    assert pickle.loads(pickle.dumps(raised.value)).execution.status == raised.value.execution.status
    with pytest.raises(rackmem.Error, match="programs that are ready are"):
        machine.execute("nothing")
    with pytest.raises(rackmem.RunError):
        machine.execute(b"no program")
    with pytest.raises(rackmem.RunError, match="max-cycles"):
        machine.execute("netpipe", nodes=2, max_cycles=1000)
    with pytest.raises(rackmem.MachineError, match="programs need chips"):
        rackmem.Machine.load("rack-torus").execute("hello")


def test_what_is_told_may_end_a_run_and_other_threads_go_on(endless):
    class Enough(Exception):
        pass

    turns = []

    def told(cycles):
        turns.append(cycles)
        if len(turns) == 3:
            raise Enough

    many = endless.set({"workload.kind": "sync-read", "run.reads": 1_000_000_000})
    for machine in (endless, many):
        turns.clear()
        with pytest.raises(Enough):
            machine.run(told=told)
        assert len(turns) == 3 and turns == sorted(turns)


def test_ctrl_c_ends_a_run():
    # What runs in the background of a shell ignores SIGINT until it asks for it.
    code = """
import rackmem, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
settings = {"run.max_windows": 1000000, "run.precision_percent": 0.0001}
machine = rackmem.Machine.load("manycore-ni").set(settings)
try:
    machine.run(told=lambda cycles: cycles and print("runs", flush=True))
except KeyboardInterrupt:
    print("interrupted")
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "runs\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0].endswith("interrupted\n") and process.returncode == 0
    finally:
        process.kill()


def test_runs_in_threads_do_not_block_each_other(machine, endless):
    stop = threading.Event()

    def told(_):
        if stop.is_set():
            raise rackmem.RunError("enough")

    failed = []

    def forever():
        try:
            endless.run(told=told)
        except rackmem.RunError as error:
            failed.append(str(error))

    thread = threading.Thread(target=forever)
    thread.start()
    assert machine.run()["latency.mean_cycles"] > 0
    stop.set()
    thread.join(timeout=60)
    assert failed == ["enough"]


def test_claims_are_judged_by_the_command():
    claims = rackmem.reproduce("deoi/table1")
    assert claims.outcome["paper"] == "deoi" and "Claims" in repr(claims)
    with pytest.raises(rackmem.CommandError, match="there is no paper"):
        rackmem.reproduce("doi")
    for wrong in ({"seeds": -1}, {"seeds": "2"}, {"jobs": 0}, {"jobs": 1.5}):
        with pytest.raises(rackmem.Error, match=f"no number of {next(iter(wrong))}"):
            rackmem.reproduce("deoi/table1", **wrong)


def test_a_report_is_a_page_about_results(machine, tmp_path):
    runs = [machine.set("ni.placement", placement).run() for placement in ("edge", "split")]
    page = tmp_path / "report.html"
    assert rackmem.report(runs, page) == page
    text = page.read_text()
    assert "placement edge" in text and runs[1]["recipe.machine_hash"] in text
    assert rackmem.report(dict(zip(["..", "\u00e9" * 200], runs)), page) == page
    with pytest.raises(rackmem.CommandError, match="No such file"):
        rackmem.report(runs, tmp_path / "nowhere" / "report.html")


def test_the_demonstration_ends_in_a_picture(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "rackmem", "demo", "-o", "page.html"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "edge" in done.stdout and "page.html" in done.stdout
    assert "Latency by stage" in (tmp_path / "page.html").read_text()


def test_the_module_is_the_command_too():
    done = subprocess.run([sys.executable, "-m", "rackmem", "sim", "machines"], capture_output=True, text=True)
    assert done.returncode == 0 and "manycore-ni" in done.stdout


def test_the_command_is_beside_python():
    from rackmem.command import find_command

    assert os.path.dirname(find_command()) == os.path.dirname(sys.executable)


@pytest.mark.parametrize(
    "read",
    [
        rackmem.Result.load,
        rackmem.Checkpoint.load,
        rackmem.Program,
        rackmem.Machine.load,
    ],
)
@pytest.mark.parametrize("name", ["pipe", "/dev/zero"])
def test_what_never_ends_is_refused_by_its_name(tmp_path, read, name):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(rackmem.Error, match=name):
        read(tmp_path / name)
