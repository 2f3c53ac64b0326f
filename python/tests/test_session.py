"""Programs that are executed piece by piece."""

import copy
import math
import os
import pickle
import shutil
import signal
import subprocess
import threading

import numpy
import pytest

import rackmem

SIZES = ["netpipe", "--sizes=8,64", "--seconds=0.00002", "--json"]


@pytest.fixture(scope="module")
def rack():
    return rackmem.Machine.load("sonuma")


def test_pieces_are_the_whole_to_the_byte(rack):
    whole = rack.execute(*SIZES, nodes=2)
    session = rack.session(*SIZES, nodes=2)
    pieces = 0
    while session.run(cycles=10_007):
        pieces += 1
    assert pieces > 3 and not session.is_running
    assert session.finish().json() == whole.json()


def test_marks_add_up_to_the_report(rack):
    session = rack.session(*SIZES, nodes=2)
    begin = session.mark()
    session.run(us=20)
    middle = session.mark()
    with session.measure() as rest:
        assert not session.run()
    first = session.between(begin, middle)
    assert first.cycles > 0 and rest.cycles > 0 and first.ns == pytest.approx(20_000, rel=0.01)
    report = session.finish()
    counters = [path for path in report.stats if path.endswith(".retired")]
    assert counters
    for path in counters:
        assert first[path] + rest[path] == report[path]
    assert rest.cycles + first.cycles == report["cycles"]


def test_a_piece_ends_where_a_text_is_printed(rack):
    session = rack.session("hello", nodes=2)
    assert session.run(until="took number")
    assert session.stdout.startswith("node 0 of 2 took number")
    assert not session.run(until="never printed")
    assert session.finish().status == 0


def test_bad_input_is_refused(rack):
    session = rack.session("hello")
    for wrong in ({"cycles": 0}, {"us": -1}, {"cycles": 1, "us": 1}, {"until": ""}):
        with pytest.raises(rackmem.Error):
            session.run(**wrong)
    first = session.mark()
    session.run(cycles=1000)
    with pytest.raises(rackmem.Error, match="exchange them"):
        session.between(session.mark(), first)
    session.finish()
    with pytest.raises(rackmem.RunError, match="the session is over"):
        session.run()
    with pytest.raises(rackmem.MachineError):
        rackmem.Machine.load("rack-torus").session("hello")
    with pytest.raises(rackmem.RunError, match="netpipe: node 0 ended with status"):
        rack.session("netpipe", "--nonsense").finish()


def test_what_told_raises_ends_the_run(rack):
    class Stop(Exception):
        pass

    def told(_cycles):
        raise Stop

    session = rack.session("pagerank", "--kronecker", "12", "--variant", "fine", nodes=2)
    with pytest.raises(Stop):
        session.run(told=told)
    with pytest.raises(rackmem.RunError, match="interrupted"):
        session.finish()


def test_a_fast_forward_changes_times_and_no_answers(rack):
    whole = rack.execute("pagerank", "--kronecker", "6", "--variant", "serial")
    session = rack.session("pagerank", "--kronecker", "6", "--variant", "serial")
    assert session.fast_forward(50_000)
    assert 50_000 <= session.instructions < 52_000
    with session.measure() as part:
        assert session.run(instructions=10_000)
    assert 10_000 <= part["node[0].core[0].retired"] < 11_000
    assert not session.fast_forward()
    result = session.finish()
    assert result.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]


def test_pieces_without_timing_that_cannot_be_are_refused(rack):
    session = rack.session("hello")
    with pytest.raises(rackmem.Error, match="1 or more"):
        session.fast_forward(0)
    with pytest.raises(rackmem.Error, match="begin"):
        session.fast_forward(region="middle")
    assert not session.fast_forward(region="begin")


def test_borrowed_memory_is_reached_without_timing_for_the_rest():
    machine = rackmem.Machine.load("tsm-sim").set("window.policy", "write-through-update")
    session = machine.session("tsm_share", "--share=policy", nodes=2)
    assert session.fast_forward(instructions=1000)
    checkpoint = session.checkpoint()
    assert not session.fast_forward()
    assert "read again: 0" in session.finish().stdout
    assert "read again: 0" in machine.restore(checkpoint).finish().stdout


def test_a_program_goes_on_from_a_checkpoint(rack, tmp_path):
    session = rack.session("pagerank", "--kronecker", "6", "--variant", "serial")
    assert session.fast_forward(50_000)
    checkpoint = session.checkpoint()
    checkpoint.save(tmp_path / "here")
    loaded = rackmem.Checkpoint.load(tmp_path / "here")
    assert (loaded.machine, loaded.cycle, loaded.instructions) == (rack.name, session.cycle, session.instructions)
    assert loaded.nbytes == checkpoint.nbytes > 100_000
    whole = session.finish()
    assert rack.restore(loaded).finish() == whole
    assert rack.restore(tmp_path / "here").finish() == whole


def test_a_checkpoint_follows_no_link_out_of_the_folder(rack, tmp_path, monkeypatch):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.write_text("precious")
    monkeypatch.chdir(inside)
    session = rack.session("pagerank", "--kronecker", "6", "--variant", "serial")
    session.fast_forward(50_000)
    checkpoint = session.checkpoint()
    (inside / "link").symlink_to(outside)
    with pytest.raises(rackmem.RunError, match="leads out of the folder"):
        checkpoint.save("link")
    assert outside.read_text() == "precious"
    (inside / "link").unlink()
    (inside / "link").symlink_to("here")
    checkpoint.save("link")
    assert (inside / "link").is_symlink()
    assert rackmem.Checkpoint.load("here").nbytes == checkpoint.nbytes


def test_forks_are_on_machines_of_their_own(rack):
    session = rack.session("pagerank", "--kronecker", "6", "--variant", "serial")
    session.fast_forward(50_000)
    forks = session.fork(rack.set("llc.size_bytes", size) for size in ("64K", "1M"))
    small, large = (fork.finish() for fork in forks)
    assert small.stdout.splitlines()[-1] == large.stdout.splitlines()[-1]
    assert small["cycles"] > large["cycles"]
    with pytest.raises(rackmem.MachineError, match="memory.size_bytes"):
        session.fork([rack.set("memory.size_bytes", "1M")])


def test_forks_go_on_in_contexts(rack):
    session = rack.session("pagerank", "--kronecker", "5", "--variant", "fine", nodes=2)
    session.fast_forward(200_000)
    forks = session.fork(rack.set("rmc.tlb_entries", entries) for entries in (4, 32))
    # Ten vertices and their ranks.
    ranks = [fork.finish().stdout.splitlines()[-10:] for fork in forks]
    assert ranks[0] == ranks[1] == session.finish().stdout.splitlines()[-10:]


def test_forks_have_network_interfaces_in_other_places():
    chip = rackmem.Machine.load("manycore-ni").set({"ni.placement": "edge", "network.remote": "nodes"})
    chip = chip.set({"ni.completion": "acknowledged", "tiles.columns": 2, "tiles.rows": 2, "memory.controllers": 2})
    session = chip.session("pagerank", "--kronecker", "5", "--variant", "fine", nodes=2)
    session.fast_forward(200_000)
    places = [chip.set("ni.placement", place) for place in ("edge", "split", "per-tile")]
    rmc = rackmem.Machine.load("sonuma").set("tiles.columns", 4)
    ends = [fork.finish() for fork in session.fork([*places, rmc])]
    ranks = [end.stdout.splitlines()[-10:] for end in ends]
    assert all(other == ranks[0] for other in ranks)
    assert len({end["cycles"] for end in ends}) == len(ends)
    with pytest.raises(rackmem.MachineError, match="ni.wq_entries"):
        session.fork([chip.set("ni.wq_entries", 64)])


def test_a_child_of_fork_goes_on_by_itself(rack):
    whole = rack.execute(*SIZES, nodes=2)
    session = rack.session(*SIZES, nodes=2)
    session.run(cycles=1000)
    sessions = [session]
    child = os.fork()
    if child == 0:
        try:
            session.run(cycles=1000)
            assert session.finish().json() == whole.json()
            # What was executed by threads of the parent goes without them.
            sessions.clear()
            del session
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert session.finish().json() == whole.json()


def test_places_that_have_no_checkpoint_are_refused(rack, tmp_path):
    session = rack.session("pagerank", "--kronecker", "6", "--variant", "serial")
    session.run(instructions=1000)
    with pytest.raises(rackmem.RunError, match="fast-forward from the begin"):
        session.checkpoint()
    (tmp_path / "none").write_text("none")
    for name, why in (("none", "is no checkpoint"), ("nothing", "No such file")):
        with pytest.raises(rackmem.RunError, match=why):
            rack.restore(tmp_path / name)


def test_dynamically_linked_programs_have_their_libraries(rack, tmp_path):
    compiler, libraries = shutil.which("riscv64-linux-gnu-gcc"), "/usr/riscv64-linux-gnu"
    if compiler is None:
        pytest.skip("riscv64-linux-gnu-gcc is not installed")
    source, program = tmp_path / "prog.c", tmp_path / "prog"
    source.write_text('#include <stdio.h>\nint main(void) { return puts("42") < 0; }\n')
    subprocess.run([compiler, "-o", program, source], check=True)
    whole = rack.execute(program, libraries=libraries)
    assert whole.stdout == "42\n"
    for missing in (None, tmp_path, tmp_path / "nothing"):
        with pytest.raises(rackmem.RunError, match="dynamic|No such file"):
            rack.execute(program, libraries=missing)
    session = rack.session(program, libraries=libraries)
    session.fast_forward(20_000)
    checkpoint = session.checkpoint()
    (fork,) = session.fork([rack])
    with pytest.raises(rackmem.RunError, match="dynamically linked"):
        rack.restore(checkpoint)
    for going_on in (session, fork, rack.restore(checkpoint, libraries=libraries)):
        assert going_on.finish().stdout == "42\n"


def test_a_checkpoint_goes_to_other_processes_and_a_session_does_not(rack):
    session = rack.session("hello")
    assert session.fast_forward(10)
    checkpoint = session.checkpoint()
    again = pickle.loads(pickle.dumps(checkpoint))
    assert (again.machine, again.cycle, again.nbytes) == (checkpoint.machine, checkpoint.cycle, checkpoint.nbytes)
    assert rack.restore(again).finish().json() == rack.restore(checkpoint).finish().json()
    assert copy.deepcopy(checkpoint) is checkpoint
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(rackmem.Error, match="cannot be copied"):
            attempt(session)


def test_what_a_measured_block_raises_is_raised(rack):
    session = rack.session("hello")
    with pytest.raises(KeyError, match="mine"), session.measure():
        session.finish()
        raise KeyError("mine")
    session = rack.session(*SIZES, nodes=2)
    with pytest.raises(KeyError, match="mine"), session.measure() as part:
        session.run(us=1)
        raise KeyError("mine")
    assert part.cycles > 0


def test_a_session_that_ctrl_c_has_ended_does_not_run(rack):
    session = rack.session("pagerank", "--kronecker", "12", "--variant", "fine", nodes=2)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        session.run()
    assert not session.is_running and not session.run(us=1)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cycles": 2.5}, "a piece of 2.5 cycles"),
        ({"cycles": "1"}, "a piece of '1' cycles"),
        ({"us": math.nan}, "a piece of nan us"),
        ({"us": math.inf}, "a piece of inf us"),
        ({"us": "1"}, "a piece of '1' us"),
        ({"us": -1}, "1 or more"),
        ({"instructions": 2.5}, "a piece of 2.5 instructions"),
        ({"until": 3}, "until: 3 is no text"),
        ({"until": "\ud800"}, "until: .* is no text"),
    ],
)
def test_pieces_that_have_no_end_are_refused(rack, wrong, said):
    with pytest.raises(rackmem.Error, match=said):
        rack.session("hello").run(**wrong)


def test_pieces_may_be_longer_than_any_program(rack):
    for piece in ({"cycles": 1 << 64}, {"us": 1e30}, {"instructions": 1 << 64}, {"cycles": numpy.int64(1 << 40)}):
        assert not rack.session("hello").run(**piece)
    with pytest.raises(rackmem.Error, match="max_cycles: -1 is no number"):
        rack.execute("hello", max_cycles=-1)
