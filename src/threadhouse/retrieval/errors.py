"""Every failure that Threadhouse names.

Belongs here: one small class per thing that can be wrong. The message is one sentence that says what is wrong and what to do.
Does not belong here: handling. An error is caught only where something can be done about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ThreadhouseError(Exception):
    """Base of every failure a user can be told about in one sentence; the CLI prints it without a traceback."""


class ConfigurationError(ThreadhouseError):
    """A setting is missing, malformed or contradicts another one."""


class StoreUnreachableError(ThreadhouseError):
    """A store did not answer; the message names the store and the address without its password."""


class StoreLockedError(ThreadhouseError):
    """Another process holds a store; the message says which process."""


class MigrationError(ThreadhouseError):
    """The schema could not be brought up to date; nothing of the failed migration was kept."""


class MigrationDriftError(MigrationError):
    """An applied or frozen migration no longer has the text it had when it was frozen."""


class LoadError(ThreadhouseError):
    """A path or a mapping cannot be loaded at all (a wrong row is quarantined instead)."""


class AttachError(ThreadhouseError):
    """A file of views cannot be attached; the message has a line for each thing that is wrong, and nothing was changed."""


class DocumentMigrationError(ThreadhouseError):
    """Documents cannot change sides as they were asked to; all of them stayed where they were."""


class AnalyticsError(ThreadhouseError):
    """The analysts' file cannot answer: it is not there yet, or the statement is not one that it takes."""


class RetentionError(ThreadhouseError):
    """Something was to leave by age that is kept nowhere else yet; it stayed."""


class EmbedderError(ThreadhouseError):
    """The embedding model produced something that is not a usable vector."""


class ModelUnavailableError(EmbedderError):
    """The model's files are not there; never answered by falling back to another model."""


class ModelCorruptError(EmbedderError):
    """The model's files are there but are not the ones that the manifest names."""


class EmptyTextError(EmbedderError):
    """A text is empty after preparation; the model would return a valid-looking vector for it."""


class SpaceMismatchError(ThreadhouseError):
    """A vector of one space met a collection or a query of another."""


class DimensionMismatchError(ThreadhouseError):
    """Arrays that belong together have different lengths."""


class DegenerateCentroidError(ThreadhouseError):
    """The weighted vectors cancel out, so there is no direction."""


class ChunkBoundaryError(ThreadhouseError):
    """A chunk is not the slice of its unit that it claims to be, or the chunks do not cover the unit."""


class PayloadContractError(ThreadhouseError):
    """A payload lacks a field of the contract or carries a wrong one."""


class CollectionUnknownError(ThreadhouseError):
    """A collection does not exist or is not registered."""


class ProjectionError(ThreadhouseError):
    """The vectors that were written are not the vectors that were planned; nothing was switched over."""


class DeletionBrakeError(ThreadhouseError):
    """A run wants to delete a larger share than allowed; it stops and asks."""


class EmptySourceError(ThreadhouseError):
    """The source holds nothing although the projection does: never read as "delete everything"."""


class WrongAudienceError(ThreadhouseError):
    """Something invisible to the principal was about to leave: a security event, never a metric."""


class GapUnknownError(ThreadhouseError):
    """There is no gap signal with this id."""


class SecurityEventUnknownError(ThreadhouseError):
    """No security event has this id."""


class QueryTooLongError(ThreadhouseError):
    """A question is longer than a question can be; the message says how long it may be."""


class PrincipalExpiredError(ThreadhouseError):
    """A principal's time is over; whoever issued it has to issue another."""


class TokenRefusal(StrEnum):
    """Why a token is no proof of who somebody is. The list is closed: a new reason is a new word here."""

    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    HEADER = "header"
    ALGORITHM = "algorithm"
    KEY = "key"
    SIGNATURE = "signature"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    LIFETIME = "lifetime"
    ISSUER = "issuer"
    SERVICE = "service"
    CLAIM_MISSING = "claim_missing"
    CLAIM_WRONG = "claim_wrong"


_TOKEN_REFUSALS: Mapping[TokenRefusal, str] = {
    TokenRefusal.TOO_LARGE: "The token is longer than a token can be; ask whoever issued it for another.",
    TokenRefusal.MALFORMED: "This is not a signed token of three parts; give it as it was issued, whole and without quotes.",
    TokenRefusal.HEADER: "The token's header holds more than algorithm, type and key id; ask its issuer for one without.",
    TokenRefusal.ALGORITHM: "The token is not signed with the algorithm of its key; ask its issuer for another.",
    TokenRefusal.KEY: "The token names no key that is trusted here; ask for one that is signed with a current key.",
    TokenRefusal.SIGNATURE: "The token's signature does not fit its content; give the token as it was issued.",
    TokenRefusal.EXPIRED: "The token has expired; ask whoever issued it for another.",
    TokenRefusal.NOT_YET_VALID: "The token is not valid yet; wait, or compare the clocks of its issuer and of this machine.",
    TokenRefusal.LIFETIME: "The token lives longer than is allowed here (TOKEN_MAX_LIFETIME_S); ask for a shorter one.",
    TokenRefusal.ISSUER: "The token comes from another issuer than the one trusted here (TOKEN_ISSUER).",
    TokenRefusal.SERVICE: "The token was issued for another service than this one (TOKEN_AUDIENCE).",
    TokenRefusal.CLAIM_MISSING: "The token lacks a claim that every token must have; docs/tokens.md lists them.",
    TokenRefusal.CLAIM_WRONG: "A claim of the token has a form or a word that it cannot have; docs/tokens.md lists them.",
}


class InvalidTokenError(ThreadhouseError):
    """A token was refused. The message is one of a fixed set and repeats nothing of the token or of a key."""

    def __init__(self, reason: TokenRefusal) -> None:
        super().__init__(_TOKEN_REFUSALS[reason])
        self.reason = reason


class TokenGrantError(ThreadhouseError):
    """What somebody wants to put into a token is nothing that a token can say."""


class QueryUnknownError(ThreadhouseError):
    """A query id that nobody of this audience was given."""


class PackUnknownError(ThreadhouseError):
    """A pack id that nobody of this audience was given."""


class CitationFormatError(ThreadhouseError):
    """A citation that is not ``canonical_address@revision``."""


class CalibrationError(ThreadhouseError):
    """The judged queries cannot calibrate anything: none of them has its thread among those that were seen."""


class PolicyDocumentError(ThreadhouseError):
    """A file is not an audience policy; the message names the place and says what would be right."""


class PolicyConflictError(ThreadhouseError):
    """Another audience policy came into force since the one that a change was made from."""


class PolicyWideningError(ThreadhouseError):
    """A policy would show somebody more than before, and nobody confirmed that."""


class ReplayLossError(ThreadhouseError):
    """Too many recent questions would lose the answer they have; nothing was switched over."""


class ProposalUnknownError(ThreadhouseError):
    """A proposal id that is nobody's; the list names them all."""


class ProposalDecidedError(ThreadhouseError):
    """A proposal was decided before, the other way; the message says by whom and why."""


class BackupError(ThreadhouseError):
    """A backup cannot be made or put back; what was there before is untouched, unless the message says otherwise."""
