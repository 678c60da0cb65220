"""The arithmetic and the shapes of the benchmarks; nothing here is timed.

Belongs here: arguments, medians, turns, tables, JSON, the yardsticks of retrieval, and the page about them. Does not belong here:
running a benchmark.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from bench import access_cost, leaks, nightly, revoke
from bench.__main__ import BENCHES, main, settings_of, title_of
from bench.labelled_hub import HubSight, HubTruth, draw, is_doubled, sight_of_reader
from bench.measuring import (
    BenchFailedError,
    BenchSkippedError,
    Measure,
    Report,
    describe_machine,
    format_number,
    interleave,
    median,
    run_process,
)
from bench.reference_search import PlainBm25, best, quality_of, reciprocal_rank
from bench.synthetic_hub import make_points, unit_rows
from fixtures_source_tree import ROOT
from threadhouse.retrieval.audience import AudiencePolicy, Labels, LanePolicy, lane_principal
from threadhouse.retrieval.bm25 import TermForm, split_terms
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    Collection,
    DataClassification,
    Flags,
    LifecycleStage,
    PublicationState,
    Readiness,
    RiskClass,
    Visibility,
)
from threadhouse.retrieval.payloads import validate_payload

PAGE = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def report(*measures: Measure) -> Report:
    taken_at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return Report("nightly", "What it is", {"rounds": 3}, measures, {"cores": 2}, taken_at)


def test_the_median_of_an_even_number_of_rounds_is_between_the_middle_two() -> None:
    assert median([9.0, 1.0, 2.0, 4.0]) == 3.0


def test_no_rounds_have_no_median() -> None:
    with pytest.raises(BenchFailedError):
        median([])


def test_the_order_of_the_contestants_rotates_so_that_nobody_always_goes_first() -> None:
    order: list[str] = []

    def contestant(name: str) -> float:
        order.append(name)
        return float(len(order))

    taken = interleave(3, {name: lambda name=name: contestant(name) for name in "abc"})
    assert "".join(order) == "abcbcacab"
    assert taken["a"] == (1.0, 6.0, 8.0)


def test_a_ratio_needs_a_peer_that_is_not_zero() -> None:
    with_peer = Measure("x", 3.0, "s", "floor", 2.0)
    beside_zero = Measure("x", 3.0, "s", "floor", 0.0)
    assert (with_peer.ratio, beside_zero.ratio, Measure("x", 3.0, "s").ratio) == (1.5, None, None)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.0123, "0.0123"), (2.345, "2.35"), (45678.9, "45,679")]
)
def test_a_figure_has_three_digits_that_matter(value: float, text: str) -> None:
    assert format_number(value) == text


def test_the_table_has_one_line_a_figure_with_what_stands_beside_it() -> None:
    lines = report(Measure("audit", 3.0, "s", "bare scroll", 2.0, "clean")).render().splitlines()
    assert lines[:2] == ["nightly: What it is", "(rounds 3)"]
    assert re.fullmatch(r"audit +3 s +bare scroll 2 +1\.50x +clean", lines[3])


def test_the_json_file_keeps_every_round_and_no_run_replaces_another(tmp_path: Path) -> None:
    first = report(Measure("audit", 2.0, "s", rounds=(1.0, 2.0, 9.0))).write(tmp_path)
    content = json.loads(first.read_text(encoding="utf-8"))
    assert content["measures"][0]["rounds"] == [1.0, 2.0, 9.0]
    assert content["machine"] == {"cores": 2}
    later = Report("nightly", "What it is", {}, [], {})
    assert later.write(tmp_path) != first


def test_a_report_names_no_folder_of_the_machine_it_was_taken_on() -> None:
    import argparse

    options = argparse.Namespace(input=Path("somebody") / "data" / "laws", share=0.1, home=None)
    assert settings_of(options) == {"input": "laws", "share": 0.1, "home": None}
    assert not {"node", "host", "user"} & set(describe_machine())


def test_the_memory_of_a_child_is_seen_with_that_of_its_children() -> None:
    grandchild = "import time; block = bytearray(60_000_000); time.sleep(0.6)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    assert run_process([sys.executable, "-c", program], {}).peak_mb > 60


def test_a_command_that_fails_fails_the_benchmark_with_its_last_words() -> None:
    with pytest.raises(BenchFailedError, match="gone wrong"):
        run_process([sys.executable, "-c", "raise SystemExit('gone wrong')"], {})


def test_the_list_names_every_benchmark_and_what_it_measures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--list"]) == 0
    listed = [line.split(None, 1) for line in capsys.readouterr().out.splitlines()]
    assert listed == [[name, title_of(name)] for name in BENCHES]


def test_an_unknown_benchmark_is_wrong_usage() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["nonesuch"])
    assert ended.value.code == 2


@pytest.mark.parametrize("share", ["0", "1.5", "-1"])
def test_a_share_outside_of_0_to_1_is_wrong_usage(share: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["nightly", "--share", share])
    assert ended.value.code == 2


def test_an_input_that_is_not_there_skips_the_benchmark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["nightly", "--input", str(tmp_path / "nothing")]) == 0
    assert "skipped" in capsys.readouterr().out


def test_a_larger_share_holds_every_unit_of_a_smaller_one() -> None:
    units = [f"unit-{number}" for number in range(2_000)]
    tenth = {unit for unit in units if nightly.is_in_share(unit, 0.1)}
    half = {unit for unit in units if nightly.is_in_share(unit, 0.5)}
    assert tenth < half
    assert 150 < len(tenth) < 250
    assert all(nightly.is_in_share(unit, 1.0) for unit in units)


def test_a_share_keeps_rows_as_they_are_and_copies_the_other_tables(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    lines = [f'{{"unit_id": "u{number}",  "text": "hòa"}}\n' for number in range(200)]
    (source / "units.jsonl").write_text("".join(lines), encoding="utf-8")
    (source / "edges.jsonl").write_text("{}\n", encoding="utf-8")
    count = nightly.take_share(source, target, 0.5)
    kept = (target / "units.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    assert len(kept) == count
    assert set(kept) < set(lines)
    assert (target / "edges.jsonl").read_text(encoding="utf-8") == "{}\n"


def test_a_share_of_a_folder_without_units_cannot_be_taken(tmp_path: Path) -> None:
    with pytest.raises(BenchSkippedError):
        nightly.take_share(tmp_path, tmp_path / "target", 0.5)


def test_plain_bm25_ranks_like_its_formula() -> None:
    """Two texts of equal length: a term in one of them weighs ln(1 + 1.5 / 1.5) * 1.9 / 1.9 = ln 2."""
    plain = PlainBm25(["mèo đen", "chó đen"])
    assert plain.scores("mèo").tolist() == pytest.approx([np.log(2), 0.0])


def test_plain_terms_and_ours_agree_on_text_without_tones_on_open_syllables() -> None:
    text = "Điều 5, Luật 45/2019/QH14"
    assert PlainBm25([text]).scores("điều").max() > 0
    assert split_terms(text, TermForm.ACCENTED) == ["điều", "5", "luật", "45", "2019", "qh14"]


def test_the_best_are_taken_among_what_is_allowed() -> None:
    scores = np.array([0.1, 0.9, 0.5, 0.7])
    assert best(scores, 2) == [1, 3]
    assert best(scores, 2, np.array([True, False, True, False])) == [2, 0]


def test_a_relevant_unit_beyond_the_tenth_place_counts_nothing() -> None:
    ranking = [f"u{number}" for number in range(11)]
    assert [reciprocal_rank(ranking, {u}) for u in ("u0", "u9", "u10")] == [1.0, 0.1, 0.0]


def test_quality_gives_an_interval_that_shrinks_with_more_questions() -> None:
    few, many = quality_of([1.0, 0.0] * 50), quality_of([1.0, 0.0] * 5_000)
    assert (few.mrr, few.hit_rate, few.queries) == (0.5, 0.5, 100)
    assert many.half_width == pytest.approx(few.half_width / 10)
    assert quality_of([]).queries == 0


def test_made_up_points_keep_the_payload_contract_and_are_the_same_each_time() -> None:
    points, texts = make_points(30)
    for point in points:
        validate_payload(Collection.INFORMATION_UNITS, point.payload)
    again, _ = make_points(30)
    assert [p.bm25_accented for p in points] == [p.bm25_accented for p in again]
    assert len({p.point_id for p in points}) == len(texts) == 30


def test_made_up_directions_have_length_1() -> None:
    assert np.linalg.norm(unit_rows(20, 3), axis=1) == pytest.approx(1.0)


def test_the_page_describes_every_benchmark_and_quotes_figures_with_a_date() -> None:
    """Reads "benchmarks.md"."""
    assert [name for name in BENCHES if f"python -m bench {name}" not in PAGE] == []
    assert re.search(r"\b20\d\d-\d\d-\d\d\b", PAGE)


def test_every_ratio_of_the_page_is_that_of_the_two_figures_before_it() -> None:
    """A row ``| what | figure | peer | ratio x |`` whose figures were changed without its ratio would mislead."""
    wrong: list[str] = []
    checked = 0
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) < 4 or not cells[3].endswith("x"):
            continue
        checked += 1
        figure, peer, ratio = (_first_number(cell) for cell in cells[1:4])
        if abs(figure / peer - ratio) > 0.05 * ratio + 0.005:
            wrong.append(line)
    assert wrong == []
    assert checked > 5


def _first_number(cell: str) -> float:
    found = re.search(r"\d[\d,]*(?:\.\d+)?|\.\d+", cell)
    assert found, cell
    return float(found.group().replace(",", ""))


def test_a_label_is_drawn_the_same_each_time_and_as_often_as_its_parts_say() -> None:
    words = (("public", 3), (None, 1))
    drawn = [draw("visibility", f"u{number}", words) for number in range(2_000)]
    assert drawn == [draw("visibility", f"u{number}", words) for number in range(2_000)]
    assert 1_400 < drawn.count("public") < 1_600
    assert drawn != [draw("readiness", f"u{number}", words) for number in range(2_000)]
    assert 100 < sum(is_doubled(f"u{number}") for number in range(2_000)) < 240


OPEN_FLAGS = Flags(
    Visibility.PUBLIC,
    Readiness.PUBLISHED,
    PublicationState.PUBLISHED,
    RiskClass.LOW,
    Authority.ENACTED,
)


def _labels(flags: Flags = OPEN_FLAGS) -> Labels:
    return Labels(flags, LifecycleStage.LAW, DataClassification.UNCLASSIFIED)


def _truth() -> HubTruth:
    """Units u1 (open) and u2 (no flags) in d1, u3 (no flags) in d2; threads of them, one closed by its own flag."""
    return HubTruth(
        units={"u1": _labels(), "u2": _labels(Flags()), "u3": _labels(Flags())},
        documents={"d3": _labels(), "d4": _labels(Flags())},
        holders={"d1": frozenset({"u1", "u2"}), "d2": frozenset({"u3"})},
        threads={
            "open": Flags(),
            "closed": Flags(visibility=Visibility.RESTRICTED),
            "hidden": Flags(),
            "rejected": Flags(),
        },
        members={
            "open": frozenset({"u1", "u2"}),
            "closed": frozenset({"u1"}),
            "hidden": frozenset({"u3"}),
        },
        rejected={"rejected": frozenset({"u1"})},
        bodies={"u1": "Nội dung", "u2": "Bí mật", "u3": ""},
        names={},
    )


def test_a_reader_sees_holders_and_threads_through_the_units_that_it_sees() -> None:
    lane = LanePolicy(
        visibility=frozenset({"public"}),
        readiness=frozenset({"published"}),
        publication_state=frozenset({"published"}),
        risk_class=frozenset({"low"}),
        authority=frozenset({"enacted"}),
        lifecycle_stage=frozenset({"law"}),
        data_classification=frozenset({"unclassified"}),
    )
    policy = AudiencePolicy(1, {Audience.CUSTOMER: lane})
    sight = sight_of_reader(_truth(), lane_principal(Audience.CUSTOMER), policy)
    assert sight == HubSight(
        frozenset({"u1"}), frozenset({"d1", "d3"}), frozenset({"open"}), frozenset({"law"})
    )
    assert sight_of_reader(_truth(), lane_principal(Audience.PARTNER), policy).units == frozenset()


def _noted(*came: tuple[str, str]) -> leaks.Tally:
    sight = HubSight(frozenset({"u1"}), frozenset(), frozenset({"open"}))
    tally = leaks.Tally()
    tally.note("dense", "customer", sight, leaks.Question(7, "title", "?", "u1"), came)
    return tally


def test_what_comes_out_is_counted_and_what_may_not_be_seen_fails_the_benchmark() -> None:
    total = _noted(("unit", "u1"), ("thread", "open"))
    total.add(_noted(("thread", "open")))
    by_path, by_reader, _ = leaks.measures_of(total, _truth())
    assert (by_path.name, by_path.value, by_path.peer_value) == ("path dense", 0.0, 3.0)
    assert by_path.note == "100.0% of 2 who see the source got an answer, 50.0% the source itself"
    assert by_reader.name == "reader customer"
    total.add(_noted(("unit", "u2")))
    with pytest.raises(BenchFailedError, match=r"1 leaked; dense, customer, question 7: .*u2"):
        leaks.measures_of(total, _truth())


def test_a_path_that_gives_nothing_to_anybody_fails_the_benchmark() -> None:
    with pytest.raises(BenchFailedError, match="dense"):
        leaks.measures_of(_noted(), _truth())


def test_an_answer_that_the_last_check_stopped_fails_the_benchmark() -> None:
    tally = _noted(("unit", "u1"))
    tally.stopped += 1
    with pytest.raises(BenchFailedError, match="stopped"):
        leaks.measures_of(tally, _truth())


def test_a_question_is_never_blank_and_the_same_for_the_same_seed() -> None:
    source = leaks.Source("u1", "U.1", "", "a b", ())
    for number in range(60):
        drawn = [
            leaks.draw_question(source, number, 2, np.random.default_rng((1, number)))
            for _ in range(2)
        ]
        assert drawn[0] == drawn[1]
        assert drawn[0].text.strip()
        assert drawn[0].chunk in {0, 1}


REVOKED = revoke.Revoke(
    target=1,
    way="visibility",
    hides="unit",
    ready=100,
    committing=200,
    committed=210,
    giving=300,
    given=310,
)


def _read(began: int, ended: int, *holds: str, target: int = 1) -> revoke.Read:
    return revoke.Read(began, ended, target, "raw search", "customer", frozenset(holds))


def test_only_a_read_between_the_commit_and_the_giving_back_can_break_a_revoke() -> None:
    reads = [
        _read(50, 150, "unit"),  # began before the unit was ready
        _read(110, 190, "unit"),
        _read(120, 195),
        _read(190, 230, "unit"),  # under way at the commit
        _read(205, 290, "unit"),  # began while the commit was
        _read(210, 290),
        _read(220, 305, "unit"),  # ended while it was being given back
        _read(250, 290, "member"),  # another thing than this revoke hides
        _read(250, 290, "unit", target=2),
    ]
    found = revoke.judge_reads(reads, [REVOKED])["visibility"]
    assert (found.before, found.held_before, found.under_way, found.after) == (2, 1, 2, 2)
    assert found.violations == []
    late = _read(210, 300, "unit")
    assert revoke.judge_reads([late], [REVOKED])["visibility"].violations == [late]


def test_a_revoke_that_a_read_did_not_meet_proves_nothing_and_a_broken_one_fails() -> None:
    before, after = _read(110, 190, "unit"), _read(220, 290)
    measures = revoke.measures_of(revoke.Watched([before, after], [REVOKED]), 2.0)
    assert [m.value for m in measures[:2]] == [0.0, 0.0]
    assert measures[0].peer_value == 1.0
    with pytest.raises(BenchFailedError, match="nothing was proved"):
        revoke.measures_of(revoke.Watched([after], [REVOKED]), 2.0)
    broken = [before, after, _read(220, 290, "unit")]
    with pytest.raises(BenchFailedError, match=r"1 reads .* visibility: raw search, customer"):
        revoke.measures_of(revoke.Watched(broken, [REVOKED]), 2.0)


def test_the_cost_of_access_control_is_a_ratio_of_medians_and_a_median_of_differences() -> None:
    def asked(*milliseconds: float, source: str = "stored") -> list[access_cost.Asked]:
        return [access_cost.Asked(n % 3, ms, source) for n, ms in enumerate(milliseconds)]

    answers = {
        "as it is": asked(10, 12, 30, 11, 13, 13),
        "as it is, again": asked(11, 11, 11, 12, 12, 12),
        "all bypassed": [*asked(8, 10), *asked(40, 9, 9, 9, source="ad_hoc")],
        "all but the read-back": asked(10, 10, 10, 9, 9, 9),
        "without role": asked(9, 12, 20, 9, 14, 12),
    }
    whole, same, best, but_one, twice, role = access_cost.measures_of(answers)
    assert (whole.value, whole.peer_value) == (12.5, 9)
    assert "6 stored" in whole.note
    assert (same.value, same.peer_value, same.note) == (11, 9, "2 of 6 questions")
    assert best.value == 12
    assert (but_one.value, but_one.peer_value) == (12, 9)
    assert (twice.value, twice.peer_value) == (12, 11)
    assert (role.name, role.value, role.peer_value) == ("  share of role", 1, 12)


def test_the_best_time_of_a_question_is_that_of_its_best_turn() -> None:
    asked = [access_cost.Asked(number, ms, "stored") for number, ms in ((1, 5), (0, 9), (1, 3))]
    assert access_cost.best_of_each(asked) == [9, 3]


def test_every_enforcer_can_be_bypassed_alone_and_all_together() -> None:
    alone = {bypassed for bypassed in access_cost.CONTESTANTS.values() if len(bypassed) == 1}
    assert alone == {(name,) for name in access_cost.ENFORCERS}
    assert set(access_cost.CONTESTANTS["all bypassed"]) == set(access_cost.ENFORCERS)
    assert access_cost.CONTESTANTS["as it is"] == ()
