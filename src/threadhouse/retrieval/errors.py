"""Every failure that Threadhouse names.

Belongs here: one small class per thing that can be wrong. The message is one sentence that says what is wrong and what to do.
Does not belong here: handling. An error is caught only where something can be done about it.
"""


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


class QueryTooLongError(ThreadhouseError):
    """A question is longer than a question can be; the message says how long it may be."""


class PrincipalExpiredError(ThreadhouseError):
    """A principal's time is over; whoever issued it has to issue another."""


class QueryUnknownError(ThreadhouseError):
    """A query id that nobody of this audience was given."""


class PackUnknownError(ThreadhouseError):
    """A pack id that nobody of this audience was given."""


class CitationFormatError(ThreadhouseError):
    """A citation that is not ``canonical_address@revision``."""


class CalibrationError(ThreadhouseError):
    """The judged queries cannot calibrate anything: none of them has its thread among those that were seen."""
