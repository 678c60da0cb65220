"""The commands about proposals of threads and about replays, as operators use them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from hub_rows import add_document, add_unit
from threadhouse.retrieval.events import ResolutionPath
from threadhouse.retrieval.models import Audience, ThreadId
from threadhouse.retrieval.replay import ReplayAnswer, ReplayQuestion, judge_replay
from threadhouse.stores import queries
from threadhouse.stores.migrations import open_database
from threadhouse.stores.replay import ReplayDecision, ReplayStage, write_replay
from threadhouse.stores.settings import Settings

if TYPE_CHECKING:
    from cli.conftest import CommandLine

NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def proposal_id(migrated: CommandLine) -> str:
    """An open proposal in the shared home, with one unit that its lane sees."""
    name = uuid4()
    with open_database(Settings(threadhouse_home=migrated.home)).connect() as connection:
        add_document(connection, f"d-{name}")
        add_unit(connection, f"u-{name}", f"d-{name}", "Phí là 100.")
        connection.execute(
            queries.load("intake_proposal_put"),
            {
                "proposal_id": name,
                "lane": "customer",
                "cause_key": f"customer/{name}",
                "proposed_title": "Phí thành viên",
                "language": "vi",
                "candidate_units": [f"u-{name}"],
                "question_keys": [f"customer/{name}"],
                "query_ids": [uuid4() for _ in range(5)],
                "session_count": 3,
                "cohesion": 0.9,
                "first_seen_at": "2026-11-01T00:00:00Z",
                "last_seen_at": "2026-11-30T00:00:00Z",
                "is_open_again": False,
            },
        )
    return str(name)


def test_a_proposal_is_listed_shown_and_accepted_once(
    migrated: CommandLine, proposal_id: str
) -> None:
    done = migrated("proposals", "list", "--status", "open", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert proposal_id in {each["proposal_id"] for each in listed}
    shown = migrated("proposals", "show", proposal_id).stdout
    assert "'Phí thành viên': asked 5 times in 3 sessions" in shown
    assert f"found: u-{proposal_id}: Điều khoản" in shown
    assert migrated("proposals", "accept", proposal_id, "--who", "an").returncode == 2
    decide = ("--who", "an", "--why", "hay được hỏi", "--json")
    done = migrated("proposals", "accept", proposal_id, *decide)
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)
    second = json.loads(migrated("proposals", "accept", proposal_id, *decide).stdout)
    assert (first["is_new"], first["members"], second["is_new"]) == (True, 1, False)
    assert second["thread_id"] == first["thread_id"]
    refused = migrated("proposals", "reject", proposal_id, "--who", "an", "--why", "x")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "withdraw the thread instead" in refused.stderr
    line = migrated("proposals", "list", "--lane", "customer").stdout
    assert f"accepted by an: hay được hỏi (thread {first['thread_id']})" in line


def test_a_rejected_proposal_says_by_whom_and_why(migrated: CommandLine, proposal_id: str) -> None:
    decide = ("--who", "bình", "--why", "không cần")
    assert "is rejected" in migrated("proposals", "reject", proposal_id, *decide).stdout
    assert "was rejected" in migrated("proposals", "reject", proposal_id, *decide).stdout
    shown = json.loads(migrated("proposals", "show", proposal_id, "--json").stdout)
    assert (shown["status"], shown["decided_by"], shown["decision_reason"]) == (
        "rejected",
        "bình",
        "không cần",
    )
    assert [each["title"] for each in shown["candidate_units"]] == ["Điều khoản"]
    accepted = migrated("proposals", "accept", proposal_id, "--who", "an", "--why", "hay được hỏi")
    assert "This overrules: " in accepted.stdout
    lines = migrated("proposals", "show", proposal_id).stdout
    for said in (accepted.stdout, lines):
        assert " UTC rejected by bình: không cần\n" in said
    assert " UTC accepted by an: hay được hỏi\n" in lines


def test_no_reason_and_no_question_looks_like_another_line(
    migrated: CommandLine, proposal_id: str
) -> None:
    decide = ("--who", "eve\nforged", "--why", "no\u2028forged line")
    assert migrated("proposals", "reject", proposal_id, *decide).returncode == 0
    shown = json.loads(migrated("proposals", "show", proposal_id, "--json").stdout)
    assert (shown["decided_by"], shown["decision_reason"]) == ("eve forged", "no forged line")
    with open_database(Settings(threadhouse_home=migrated.home)).connect() as connection:
        # As an earlier release kept them.
        connection.execute(
            "update nao.thread_intake_proposal set decision_reason = %s, queries = %s where proposal_id = %s",
            ("no\nforged line", ["a\nforged \x1b[2J"], proposal_id),
        )
    for command in (("list", "--lane", "customer"), ("show", proposal_id)):
        lines = migrated("proposals", *command).stdout.splitlines()
        assert not [line for line in lines if line.startswith("forged")]
        assert [line for line in lines if line.endswith("eve forged: no forged line")]
    assert "  asked: a forged <U+001B>[2J" in lines


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("proposals", "show", NOBODY), "threadhouse proposals list names them all"),
        (("proposals", "accept", NOBODY, "--who", "an", "--why", "x"), "There is no proposal"),
        (("replay", "show", NOBODY), "threadhouse replay show without an id"),
    ],
)
def test_an_unknown_id_is_one_sentence(
    migrated: CommandLine, arguments: tuple[str, ...], says: str
) -> None:
    done = migrated(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_replay_is_shown_with_losses_first(migrated: CommandLine) -> None:
    def question(key: str) -> ReplayQuestion:
        return ReplayQuestion(key, Audience.CUSTOMER, UUID(int=1), "not kept")

    answer = ReplayAnswer(ResolutionPath.THREAD, ThreadId("t1"), ("A/1@1",), "u1")
    nothing = ReplayAnswer(ResolutionPath.NONE, None, (), None)
    keys = ["customer/1", "customer/2"]
    verdict = judge_replay(
        [question(key) for key in keys],
        dict.fromkeys(keys, answer),
        {keys[0]: ReplayAnswer(answer.path, answer.thread_id, ("A/1@2",), "u1"), keys[1]: nothing},
        0.1,
    )
    with open_database(Settings(threadhouse_home=migrated.home)).connect() as connection:
        replay_id = write_replay(
            connection,
            verdict,
            stage=ReplayStage.PACKS,
            decision=ReplayDecision.PASSED,
            is_baseline=True,
            digest="d",
            seconds=1.5,
        )
    lines = migrated("replay", "show").stdout.splitlines()
    assert lines[0].startswith(str(replay_id))
    assert "2 questions asked, 2 changed, 1 of 2 lost their answer" in lines[0]
    assert "LOST nothing_found" in lines[1]
    assert "thread t1 (1 units) -> none (0 units)" in lines[1]
    assert "text not kept" in lines[1]
    assert "changed units" in lines[2]
    shown = json.loads(migrated("replay", "show", str(replay_id), "--json").stdout)
    assert (shown["lost"], shown["at_risk"], len(shown["results"])) == (1, 2, 2)


def test_gaps_can_be_asked_again_by_hand(migrated: CommandLine) -> None:
    done = migrated("replay", "gaps", "--json")
    assert done.returncode == 0, done.stderr
    # The home is shared, and nothing is published in it: whatever gaps there are cannot be answered.
    figures = json.loads(done.stdout)
    assert set(figures) == {"closed", "reopened", "unchanged", "without_text"}
    assert (figures["closed"], figures["reopened"]) == (0, 0)
    assert migrated("replay", "gaps").stdout.startswith("0 gaps closed, 0 reopened")
