"""The embedded server lives longer than a command, and comes back after whatever happened to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import psutil
import psycopg
import pytest

from threadhouse.retrieval.errors import ConfigurationError, StoreUnreachableError
from threadhouse.stores import embedded_postgres
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings

START = (
    "import sys; from pathlib import Path; from threadhouse.stores import embedded_postgres\n"
    "print(embedded_postgres.start(Path(sys.argv[1])).pid)"
)


@pytest.fixture(scope="module")
def initialised_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose cluster exists: making one costs more than all else that a test does."""
    place = tmp_path_factory.mktemp("initialised")
    embedded_postgres.start(place)
    embedded_postgres.stop(place)
    return place


@pytest.fixture
def home(initialised_home: Path) -> Generator[Path, None, None]:
    """A home with a cluster that does not run; whatever runs there in the end is stopped."""
    yield initialised_home
    embedded_postgres.stop(initialised_home)


@pytest.fixture
def new_home(tmp_path: Path) -> Generator[Path, None, None]:
    """A home that does not exist yet."""
    place = tmp_path / "home"
    yield place
    embedded_postgres.stop(place)


def start_elsewhere(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", START, str(home)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_looking_at_a_home_that_is_not_there_creates_nothing(new_home: Path) -> None:
    found = embedded_postgres.status(new_home)
    assert (found.is_running, found.pid, found.version) == (False, None, None)
    assert not new_home.exists()


def test_the_server_outlives_the_process_that_started_it_and_stops_when_told(home: Path) -> None:
    out, err = start_elsewhere(home).communicate(timeout=60)
    found = embedded_postgres.status(home)
    assert (found.is_ready, found.pid, err) == (True, int(out), "")
    assert embedded_postgres.stop(home)
    assert not embedded_postgres.status(home).is_running
    assert not embedded_postgres.stop(home)


def test_two_processes_that_start_at_once_share_one_server(new_home: Path) -> None:
    both = [start_elsewhere(new_home), start_elsewhere(new_home)]
    answers = [process.communicate(timeout=60) for process in both]
    assert [err for _, err in answers] == ["", ""]
    assert {int(out) for out, _ in answers} == {embedded_postgres.status(new_home).pid}


def test_committed_rows_survive_kill_9(home: Path) -> None:
    running = embedded_postgres.start(home)
    with psycopg.connect(running.conninfo()) as connection:
        connection.execute("create table kept (word text)")
        connection.execute("insert into kept values ('Điều')")
    assert running.pid is not None
    os.kill(running.pid, signal.SIGKILL)
    again = embedded_postgres.start(home)
    assert again.pid != running.pid
    with psycopg.connect(again.conninfo()) as connection:
        assert connection.execute("select word from kept").fetchone() == ("Điều",)


def test_a_connection_that_is_busy_while_the_server_is_killed_does_not_block_the_next(
    home: Path,
) -> None:
    running = embedded_postgres.start(home)
    assert running.pid is not None
    with psycopg.connect(running.conninfo()) as connection:
        backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)  # an orphan that cannot notice that its server is gone
        try:
            os.kill(running.pid, signal.SIGKILL)
            waiting = start_elsewhere(home)
            with pytest.raises(subprocess.TimeoutExpired):
                waiting.wait(timeout=2)
        finally:
            os.kill(backend, signal.SIGCONT)
        out, err = waiting.communicate(timeout=60)
        assert (embedded_postgres.status(home).pid, err) == (int(out), "")


def test_a_pid_file_whose_number_another_process_inherited_is_no_server(home: Path) -> None:
    embedded_postgres.start(home)
    embedded_postgres.stop(home)
    data = embedded_postgres.status(home).data_dir
    owner = data.stat()
    # None leaves the identity as it is, which is all that an ordinary user can do.
    user, group = (owner.st_uid, owner.st_gid) if os.geteuid() == 0 else (None, None)
    heir = subprocess.Popen(["sleep", "600"], user=user, group=group)
    try:
        for name in (data / "postmaster.pid", data.parent / "run" / ".s.PGSQL.5432.lock"):
            name.write_text(f"{heir.pid}\n{data}\n1\n5432\n{data.parent / 'run'}\n\n1 1\nready\n")
            os.chown(name, owner.st_uid, owner.st_gid)
        assert not embedded_postgres.status(home).is_running
        assert embedded_postgres.start(home).is_ready
        assert heir.poll() is None
    finally:
        heir.kill()
        heir.wait()


def test_an_initialisation_that_was_killed_is_done_again(new_home: Path) -> None:
    half = new_home / "postgres" / "data.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    assert embedded_postgres.start(new_home).is_ready
    assert not half.exists()


def test_a_home_deeper_than_a_socket_address_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    running = embedded_postgres.start(deep)
    try:
        with psycopg.connect(running.conninfo()) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
        assert "A socket cannot have an address below the home" in caplog.text
        assert not Path(running.socket_dir).is_relative_to(deep)
    finally:
        embedded_postgres.stop(deep)
    assert not Path(running.socket_dir).exists()


def test_a_home_with_spaces_and_quotes_in_its_name_works(tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s "my" $HOME'
    try:
        assert embedded_postgres.start(odd).is_ready
    finally:
        embedded_postgres.stop(odd)


def test_no_parent_folder_is_opened_to_others(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    try:
        assert embedded_postgres.start(closed / "home").is_ready
        assert closed.stat().st_mode & 0o777 == 0o700
    finally:
        embedded_postgres.stop(closed / "home")


def test_a_folder_that_is_no_cluster_is_left_alone(new_home: Path) -> None:
    stranger = new_home / "postgres" / "data" / "thesis.doc"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("years of work")
    with pytest.raises(ConfigurationError, match="is not a PostgreSQL cluster; move it away"):
        embedded_postgres.start(new_home)
    assert stranger.read_text() == "years of work"


def test_a_server_that_refuses_to_start_says_why(home: Path) -> None:
    with pytest.raises(StoreUnreachableError, match=r"refused to start: .*max_connections"):
        embedded_postgres.start(home, settings={"max_connections": "many"})


def test_the_server_is_safe_and_speaks_vietnamese(home: Path) -> None:
    database = Database.open(Settings(threadhouse_home=home))
    with database.connect() as connection:
        shown = {
            name: connection.execute("select current_setting(%s)", [name]).fetchone()
            for name in (
                "fsync",
                "full_page_writes",
                "listen_addresses",
                "server_encoding",
                "TimeZone",
                "log_statement",
            )
        }
        assert shown == {
            "fsync": ("on",),
            "full_page_writes": ("on",),
            "listen_addresses": ("",),
            "server_encoding": ("UTF8",),
            "TimeZone": ("UTC",),
            "log_statement": ("none",),
        }
        folded = connection.execute(
            "select lower('ĐIỀU BỆNH'), 'Đ' ~* 'đ', normalize('Ê', nfd) = 'Ê'"
        ).fetchone()
        assert folded == ("điều bệnh", True, False)


def test_what_a_statement_holds_stays_out_of_the_log(home: Path) -> None:
    running = embedded_postgres.start(home)
    with psycopg.connect(running.conninfo(), autocommit=True) as connection:
        connection.execute("create table kept_out_of_logs (word text primary key)")
        connection.execute("insert into kept_out_of_logs values ('confidential')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("insert into kept_out_of_logs values ('confidential')")
    deadline = time.monotonic() + 10
    log = ""
    while "duplicate key" not in log and time.monotonic() < deadline:  # a collector writes it
        log = "".join(path.read_text() for path in running.log_dir.glob("*.log"))
    assert "duplicate key" in log
    assert "confidential" not in log


def test_no_process_is_left_after_a_stop(home: Path) -> None:
    running = embedded_postgres.start(home)
    assert running.pid is not None
    family = psutil.Process(running.pid).children()
    assert family
    embedded_postgres.stop(home)
    gone, alive = psutil.wait_procs(family, timeout=5)
    assert (len(gone), alive) == (len(family), [])
