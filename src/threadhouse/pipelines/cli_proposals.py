"""The commands about proposals of threads: to look at them, to accept and to reject.

Belongs here: options, what is printed. Does not belong here: what a proposal is (stores.intake_proposals).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import UUID

import click

from threadhouse.pipelines.cli_principal import AUDIENCES
from threadhouse.retrieval.text import in_one_line

if TYPE_CHECKING:
    from threadhouse.stores.intake_proposals import IntakeDecision, IntakeProposal

STATUSES = ("open", "accepted", "rejected")
"""The words of ``retrieval.question_clusters.ProposalStatus``, which would import numpy to be listed in a help text."""

_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)
_who = click.option("--who", required=True, help="Who decides.")
_why = click.option("--why", required=True, help="Why.")


def add_commands(group: click.Group) -> None:
    """Add the commands to the console script."""
    group.add_command(proposals)


@click.group()
def proposals() -> None:
    """Look at threads that are asked for and missing; make drafts of them or turn them down."""


@proposals.command("list")
@click.option(
    "--status",
    type=click.Choice(STATUSES),
    help="Only those of this status; all by default.",
)
@click.option(
    "--lane",
    type=click.Choice(AUDIENCES),
    help="Only those of this audience.",
)
@_as_json
def list_all(*, status: str | None, lane: str | None, as_json: bool) -> None:
    """List proposals, open ones first and the most asked of them first."""
    from threadhouse.retrieval.models import Audience
    from threadhouse.retrieval.question_clusters import ProposalStatus
    from threadhouse.stores.intake_proposals import list_proposals
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    with open_database(Settings.from_environment()).connect() as connection:
        found = list_proposals(
            connection,
            status=ProposalStatus(status) if status else None,
            lane=Audience(lane) if lane else None,
        )
    if as_json:
        click.echo(json.dumps([each.to_json() for each in found], ensure_ascii=False, indent=2))
        return
    if not found:
        click.echo("There is no proposal.")
    for each in found:
        click.echo(_line(each))


@proposals.command()
@click.argument("proposal_id", type=click.UUID)
@_as_json
def show(proposal_id: UUID, *, as_json: bool) -> None:
    """Show one proposal: what was asked, which units a search found, every decision with who and why.

    Units are shown as far as the proposal's audience sees them now, questions as long as their events hold them.
    """
    from threadhouse.stores.intake_proposals import read_decisions, read_proposal
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    with open_database(Settings.from_environment()).connect() as connection:
        proposal, units = read_proposal(connection, proposal_id)
        decisions = read_decisions(connection, proposal_id)
    if as_json:
        document = proposal.to_json() | {
            "candidate_units": [
                {
                    "logical_unit_id": unit.logical_unit_id,
                    "canonical_address": unit.canonical_address,
                    "title": unit.title,
                }
                for unit in units
            ],
            "decisions": [each.to_json() for each in decisions],
        }
        click.echo(json.dumps(document, ensure_ascii=False, indent=2))
        return
    click.echo(_line(proposal))
    for text in proposal.queries:
        click.echo(f"  asked: {in_one_line(text)}")
    for unit in units:
        click.echo(f"  found: {in_one_line(unit.canonical_address)}: {in_one_line(unit.title)}")
    for each in decisions:
        click.echo(f"  {_decision(each)}")


@proposals.command()
@click.argument("proposal_id", type=click.UUID)
@_who
@_why
@click.option("--title", help="Title of the thread.  [default: the proposed one]")
@_as_json
def accept(proposal_id: UUID, *, who: str, why: str, title: str | None, as_json: bool) -> None:
    """Make a draft thread of a proposal, with the units that were found as proposed members.

    Nobody sees it but agents who may read drafts, until somebody publishes it. Accepting again changes nothing.
    Accepting what was rejected says so; both decisions are kept.
    """
    from threadhouse.stores.intake_proposals import accept_proposal
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    with open_database(Settings.from_environment()).connect() as connection:
        accepted = accept_proposal(connection, proposal_id, who=who, why=why, title=title)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "thread_id": accepted.thread_id,
                    "members": accepted.members,
                    "signals_acknowledged": accepted.signals_acknowledged,
                    "is_new": accepted.is_new,
                    "overruled": accepted.overruled.to_json() if accepted.overruled else None,
                }
            )
        )
    elif accepted.is_new:
        click.echo(
            f"Draft thread {accepted.thread_id} with {accepted.members} proposed members; "
            f"{accepted.signals_acknowledged} gaps wait for it."
        )
        if accepted.overruled:
            click.echo(f"This overrules: {_decision(accepted.overruled)}")
    else:
        click.echo(f"{proposal_id} was accepted before: thread {accepted.thread_id}.")


@proposals.command()
@click.argument("proposal_id", type=click.UUID)
@_who
@_why
@_as_json
def reject(proposal_id: UUID, *, who: str, why: str, as_json: bool) -> None:
    """Turn a proposal down. It comes back only when it is asked markedly more. Rejecting again changes nothing."""
    from threadhouse.stores.intake_proposals import reject_proposal
    from threadhouse.stores.migrations import open_database
    from threadhouse.stores.settings import Settings

    with open_database(Settings.from_environment()).connect() as connection:
        is_new = reject_proposal(connection, proposal_id, who=who, why=why)
    if as_json:
        click.echo(json.dumps({"proposal_id": str(proposal_id), "is_new": is_new}))
    else:
        click.echo(f"{proposal_id} {'is' if is_new else 'was'} rejected.")


def _decision(decision: IntakeDecision) -> str:
    who, why = in_one_line(decision.decided_by), in_one_line(decision.reason)
    return f"{decision.decided_at:%Y-%m-%d %H:%M} UTC {decision.status} by {who}: {why}"


def _line(proposal: IntakeProposal) -> str:
    decided = (
        f", {proposal.status} by {in_one_line(proposal.decided_by or '')}: {in_one_line(proposal.decision_reason or '')}"
        if proposal.decided_at
        else ""
    )
    thread = f" (thread {proposal.thread_id})" if proposal.thread_id else ""
    return (
        f"{proposal.proposal_id} {proposal.lane} {proposal.proposed_title!r}: asked {proposal.question_count} times "
        f"in {proposal.session_count} sessions{decided}{thread}"
    )
