"""A shortened pack fits, keeps the best of its units whole, and says what is missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pack_samples import gap, make_pack, make_unit, suspect
from threadhouse.retrieval.models import MembershipRole
from threadhouse.retrieval.pack_budget import estimate_tokens, fit_pack
from threadhouse.retrieval.pack_render import render_markdown
from threadhouse.retrieval.packs import ContextPack, LeftOutReason

BODIES = st.lists(
    st.tuples(
        st.text(alphabet="Điều khoản\n>#", min_size=0, max_size=600),
        st.sampled_from(MembershipRole),
    ),
    max_size=30,
)
LIMITS = st.integers(1, 8_000)


@st.composite
def packs(draw: st.DrawFn) -> ContextPack:
    drawn = draw(BODIES)
    units = [make_unit(f"u{n}", body=body, role=role) for n, (body, role) in enumerate(drawn)]
    return make_pack(units, gaps=[gap("no test")], suspects=[suspect("u0")] if units else [])


def ids(pack: ContextPack) -> set[str]:
    return {unit.logical_unit_id for unit in pack.units()}


@given(pack=packs(), limit=LIMITS)
def test_a_pack_with_any_unit_fits_its_budget(pack: ContextPack, limit: int) -> None:
    fitted = fit_pack(pack, limit)
    if fitted.units():
        assert estimate_tokens(render_markdown(fitted)) <= limit
        assert fitted.token_budget is not None
        assert fitted.token_budget.used_tokens <= limit


@given(pack=packs(), limit=LIMITS)
def test_every_unit_is_either_kept_whole_or_named_as_left_out(
    pack: ContextPack, limit: int
) -> None:
    fitted = fit_pack(pack, limit)
    left_out = {
        each.logical_unit_id for each in fitted.left_out if each.reason is LeftOutReason.LENGTH
    }
    assert ids(fitted) | left_out == ids(pack)
    assert not ids(fitted) & left_out
    assert {unit.canonical_address for unit in fitted.units()} == set(fitted.source_revisions)
    assert set(fitted.recommended_reading_order) == set(fitted.source_revisions)


@given(pack=packs(), limit=LIMITS)
def test_warnings_are_never_left_out(pack: ContextPack, limit: int) -> None:
    fitted = fit_pack(pack, limit)
    assert (fitted.known_gaps, fitted.suspect_links) == (pack.known_gaps, pack.suspect_links)


@given(pack=packs())
def test_a_pack_that_fits_keeps_its_id_and_its_units(pack: ContextPack) -> None:
    fitted = fit_pack(pack, 1_000_000)
    assert fitted.model_copy(update={"token_budget": None}) == pack


@given(pack=packs(), limit=LIMITS)
def test_a_shortened_pack_has_an_id_of_its_own(pack: ContextPack, limit: int) -> None:
    fitted = fit_pack(pack, limit)
    assert (fitted.pack_id == pack.pack_id) == (ids(fitted) == ids(pack))
    assert fitted == fit_pack(pack, limit)


@given(data=st.data(), limit=LIMITS)
def test_what_the_question_found_is_kept_before_anything_else(
    data: st.DataObject, limit: int
) -> None:
    units = [
        make_unit(f"u{n}", body="x" * 300, role=data.draw(st.sampled_from(MembershipRole)))
        for n in range(12)
    ]
    found = data.draw(st.permutations([unit.logical_unit_id for unit in units]))[:4]
    kept = ids(fit_pack(make_pack(units), limit, found))
    assert set(found) <= kept or kept <= set(found)


def test_supporting_units_go_first_and_canonical_ones_last() -> None:
    units = [
        make_unit("supporting", body="x" * 900, role=MembershipRole.SUPPORTING),
        make_unit("report", body="x" * 900, role=MembershipRole.REPORT),
        make_unit("canonical", body="x" * 900),
    ]
    pack = make_pack(units)
    kept = [ids(fit_pack(pack, limit)) for limit in range(300, 2_000, 50)]
    distinct = [each for n, each in enumerate(kept) if n == 0 or each != kept[n - 1]]
    assert distinct == [
        set(),
        {"canonical"},
        {"canonical", "report"},
        {"canonical", "report", "supporting"},
    ]


def test_a_unit_that_could_never_fit_does_not_keep_the_others_out() -> None:
    units = [make_unit("huge", body="x" * 90_000), make_unit("small")]
    assert ids(fit_pack(make_pack(units), 2_000)) == {"small"}
