"""Sweeps: files, executors, failures, interruptions."""

import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

import rackmem
from rackmem.command import call, find_command

VARY = {"ni.placement": ["edge", "split"], "noc.vcs": [2, 4]}


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_all_combinations_are_rows_the_last_key_first(machine, tmp_path):
    sweep = rackmem.Sweep(machine, VARY, folder=tmp_path).run()
    found = [tuple(point.settings.values()) for point in sweep.points]
    assert found == [("edge", 2), ("edge", 4), ("split", 2), ("split", 4)]
    assert all(point.result["latency.mean_cycles"] > 0 for point in sweep.points)
    assert len(contents(tmp_path)) == 4
    rows = sweep.rows()
    assert rows[0]["breakdown.wq_write"] > 0 and rows[2]["noc.vcs"] == 2 and rows[0]["error"] is None


def test_what_is_there_is_not_run_again(machine, tmp_path):
    rackmem.Sweep(machine, VARY, folder=tmp_path).run()
    before = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    more = {**VARY, "noc.vcs": [1, 2, 4]}
    rackmem.Sweep(machine, more, folder=tmp_path).run()
    after = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert len(after) == 6 and all(after[file] == time for file, time in before.items())


def test_a_process_pool_gives_the_same_bytes(machine, tmp_path):
    rackmem.Sweep(machine, VARY, folder=tmp_path / "threads").run()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        rackmem.Sweep(machine, VARY, folder=tmp_path / "processes").run(executor)
    assert contents(tmp_path / "threads") == contents(tmp_path / "processes")


def test_dask_runs_sweeps(machine, tmp_path):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        sweep = rackmem.Sweep(machine, {"ni.placement": ["edge", "split"]}, folder=tmp_path)
        sweep.run(client.get_executor())
    assert all(point.result is not None for point in sweep.points)


def test_failures_are_rows(machine, tmp_path):
    vary = {"noc.vcs": [2, 1000], "noc.routing": ["xy", "zz"]}
    rows = rackmem.Sweep(machine, vary, folder=tmp_path).run().rows()
    assert [row["error"] is None for row in rows] == [True, False, False, False]
    assert "zz" in rows[1]["error"] and "virtual channels" in rows[2]["error"]
    assert sorted(name.split(".")[-1] for name in contents(tmp_path)) == ["failed", "failed", "failed", "json"]


def test_programs_are_swept(tmp_path):
    sweep = rackmem.Sweep(
        "sonuma",
        {"l1.latency_cycles": [3, 8]},
        programs=["hello", ["netpipe", "--sizes=8", "--seconds=0.00001", "--json"], ["netpipe", "--nonsense"]],
        nodes=2,
        folder=tmp_path,
    ).run()
    rows = sweep.rows()
    assert len(rows) == 6 and rows[1]["output.sizes[0].bytes"] == 8
    assert rows[4]["cycles"] > rows[1]["cycles"] and rows[1]["program"].startswith("netpipe --sizes")
    assert rows[0]["error"] is None and rows[0]["exit_status"] == 0 and rows[2]["error"]


def test_tables_are_files(machine, tmp_path):
    pandas = pytest.importorskip("pandas")
    sweep = rackmem.Sweep(machine, {"ni.placement": ["edge", "split"]}, folder=tmp_path / "runs").run()
    sweep.to_csv(tmp_path / "table.csv")
    assert list(pandas.read_csv(tmp_path / "table.csv")["ni.placement"]) == ["edge", "split"]
    pytest.importorskip("pyarrow")
    sweep.to_parquet(tmp_path / "table.parquet")
    table = pandas.read_parquet(tmp_path / "table.parquet")
    assert table["latency.mean_cycles"].tolist() == sweep.df()["latency.mean_cycles"].tolist()


def test_a_killed_sweep_goes_on_with_the_same_bytes(machine, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    vary = {"seed": list(range(12))}
    rackmem.Sweep(machine, vary, folder=whole).run()
    code = (
        f"import rackmem; m = rackmem.Machine.load('manycore-ni').set({dict(machine.settings)!r})\n"
        f"rackmem.Sweep(m, {vary!r}, folder={str(killed)!r}).run()"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    while len(list(killed.glob("*.json"))) < 2 and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for part in killed.glob(".*"):
        assert part.suffix == ".part"
    rackmem.Sweep(machine, vary, folder=killed).run()
    done = {name: text for name, text in contents(killed).items() if name.endswith(".json")}
    assert done == contents(whole)


def test_ctrl_c_keeps_what_is_done(endless, tmp_path):
    code = f"""
import os, rackmem, signal, threading, time
# What runs in the background of a shell ignores SIGINT until it asks for it.
signal.signal(signal.SIGINT, signal.default_int_handler)
machine = rackmem.Machine.load("manycore-ni").set({dict(endless.settings)!r})
vary = {{"run.max_windows": [1, 1000000], "run.min_windows": [1], "run.window_cycles": [20000]}}
sweep = rackmem.Sweep(machine, vary, folder={str(tmp_path)!r})

def interrupt():
    while sweep.points[0].result is None:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    sweep.run()
except KeyboardInterrupt:
    print([point.result is not None for point in sweep.points])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[True, False]\n", done.stderr
    assert len(contents(tmp_path)) == 1


def test_bad_input_is_refused(machine, tmp_path):
    with pytest.raises(rackmem.Error, match="give a list of values"):
        rackmem.Sweep(machine, {"ni.placement": "edge"})
    for wrong in (3, {}, [], b"ab"):
        with pytest.raises(rackmem.Error, match="give a list of values"):
            rackmem.Sweep(machine, {"noc.vcs": wrong})
    with pytest.raises(rackmem.MachineError, match="number of nodes"):
        rackmem.Sweep(machine, {"noc.vcs": [2]}, nodes=0)
    with pytest.raises(rackmem.Error, match="give a list of programs"):
        rackmem.Sweep(machine, {"noc.vcs": [2]}, programs="hello")
    with pytest.raises(rackmem.Error, match="programs that are ready"):
        rackmem.Sweep(machine, {"noc.vcs": [2]}, programs=["nothing"])
    sweep = rackmem.Sweep(machine, {"noc.vcs": [2]}, folder=tmp_path).run()
    file = tmp_path / f"{sweep.points[0].key}.json"
    file.write_text("{")
    with pytest.raises(rackmem.StoreError, match="delete it to make the run again"):
        rackmem.Sweep(machine, {"noc.vcs": [2]}, folder=tmp_path).run()


class Dies(ThreadPoolExecutor):
    """An executor whose worker dies after the first run."""

    def submit(self, what, job):
        if self._work_queue.qsize() or getattr(self, "used", False):
            dead = Future()
            dead.set_exception(BrokenExecutor("killed"))
            return dead
        self.used = True
        return super().submit(what, job)


def test_a_worker_that_dies_is_named_and_what_is_done_is_kept(machine, tmp_path):
    sweep = rackmem.Sweep(machine, {"seed": [1, 2, 3]}, folder=tmp_path)
    with Dies(1) as executor, pytest.raises(rackmem.RunError, match="run the sweep again"):
        sweep.run(executor)
    sweep.run()
    assert all(point.result is not None for point in sweep.points) and len(contents(tmp_path)) == 3


def test_equal_points_are_run_once(machine, tmp_path):
    sweep = rackmem.Sweep(machine, {"noc.vcs": [2, 2, "2"]}, folder=tmp_path).run()
    assert len(contents(tmp_path)) == 1 and sweep.points[0].result == sweep.points[2].result


def test_tables_may_go_to_pipes(machine, tmp_path):
    pytest.importorskip("pandas")
    sweep = rackmem.Sweep(machine, {"noc.vcs": [2]}, folder=tmp_path / "runs").run()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        sweep.to_csv(pipe)
        assert reader.stdout.read().startswith(b"noc.vcs,error")
    assert pipe.is_fifo()


def test_a_full_disk_leaves_nothing_half_written(machine, tmp_path):
    """A limit on the size of files stands for the disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    sweep = rackmem.Sweep(machine, {"noc.vcs": [2]}, folder=tmp_path)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        with pytest.raises(rackmem.StoreError, match="cannot be written: File too large"):
            sweep.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert contents(tmp_path) == {}


def test_the_command_takes_what_python_has_made(machine, tmp_path):
    rackmem.Sweep(machine, VARY, folder=tmp_path / "runs").run()
    (tmp_path / "machine.toml").write_text(machine.toml)
    study = tmp_path / "study.toml"
    study.write_text(f'machine = "machine.toml"\nfolder = "runs"\nvary = {toml(VARY)}\n')
    command = [find_command(), "sweep", study, "--list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def toml(vary):
    return "{" + ", ".join(f'"{key}" = {values!r}' for key, values in vary.items()) + "}"


def test_a_folder_that_is_a_file_is_refused(machine, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(rackmem.StoreError, match="Not a directory"):
        rackmem.Sweep(machine, {"noc.vcs": [2]}, folder=tmp_path / "file").run()


def test_a_report_of_a_sweep_has_its_failures(machine, tmp_path):
    # No host has room for the second one.
    vary = {"llc.size_bytes": ["16M", "1024G", 3], "ni.placement": ["edge", "split"]}
    sweep = rackmem.Sweep(machine, vary, folder=tmp_path / "runs")
    page = tmp_path / "report.html"
    # What cannot be a machine is known before any run.
    assert sum(point.error is not None for point in sweep.points) == 2
    with_errors = rackmem.report(sweep, page).read_text()
    assert with_errors.count('class="missed"') == 2 and "of this host's memory" not in with_errors
    sweep.run()
    text = rackmem.report(sweep, page).read_text()
    assert text.count('class="missed"') == 4 and "of this host's memory" in text
    # The command says the same of the folder.
    written = call("report", str(sweep.folder), f"--out={tmp_path / 'folder.html'}")
    assert written.endswith("folder.html: 6 runs, 4 failed\n")
    # Results count, also when their files are gone.
    for file in sweep.folder.iterdir():
        file.unlink()
    assert rackmem.report(sweep, page).read_text() == text


def test_a_report_of_many_results_is_about_them_all(machine, tmp_path):
    result = machine.run()
    page = rackmem.report({f"the {n}th": result for n in range(14)}, tmp_path / "report.html")
    assert "the 13th" in page.read_text()
    assert "14 runs of manycore-ni" in page.read_text()


def test_a_pipe_in_the_folder_of_a_sweep_is_refused(machine, tmp_path):
    """Nobody writes to it; who waited for that would keep Python's lock."""
    sweep = rackmem.Sweep(machine, {"noc.vcs": [2]}, folder=tmp_path)
    os.mkfifo(tmp_path / f"{sweep.points[0].key}.json")
    with pytest.raises(rackmem.StoreError, match=r"fnv.*\.json: is a pipe with a name"):
        sweep.run()
