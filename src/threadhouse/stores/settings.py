"""Every value the environment can set, read once and checked once.

Belongs here: names, defaults and checks of environment variables.
Does not belong here: opening anything. A store takes a ``Settings`` and opens itself.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import (
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.query_keeping import QueryTextMode

HOME_NAME = ".threadhouse"


DEFAULT_BUCKETS = 8
"""A few for each worker of a small engine, so that one slow bucket does not hold up the others for long."""


class Executor(StrEnum):
    """What runs the steps of a job."""

    IN_PROCESS = "in_process"
    MULTIPROCESS = "multiprocess"
    CELERY = "celery"


def default_home() -> Path:
    """``.threadhouse/`` in the checkout this code runs from, else in the working directory."""
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "pyproject.toml").is_file() and (checkout / "src" / "threadhouse").is_dir():
        return checkout / HOME_NAME
    return Path.cwd() / HOME_NAME


class Settings(BaseSettings):
    """The environment, frozen. A field carries the name of its variable, in lower case.

    An empty variable counts as not set, because ``DATABASE_URL= make nightly`` is how people switch
    a server off.
    """

    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True
    )

    threadhouse_home: Path = Field(
        default_factory=default_home,
        description="Everything that is written at run time lives below this folder.",
    )
    threadhouse_tz: str = Field(
        default="Asia/Ho_Chi_Minh",
        description="Zone of the schedule and of local days; instants are stored in UTC.",
    )
    database_url: SecretStr | None = Field(
        default=None,
        description="An outside PostgreSQL 14 or newer; unset means the embedded server.",
    )
    qdrant_url: str | None = Field(
        default=None, description="An outside Qdrant; unset means the embedded engine."
    )
    qdrant_api_key: SecretStr | None = Field(default=None, description="Sent to QDRANT_URL only.")
    embedding_model: str | None = Field(
        default=None,
        description="Name of a fastembed model; unset means the offline model.",
    )
    embedding_path: Path | None = Field(default=None, description="Folder with a local model.")
    embedding_threads: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="Threads of the embedder; unset lets it use every core.",
    )
    lake_url: str | None = Field(
        default=None,
        description="Folder, or file://, s3://, gs:// or az:// address of the event lake; unset: lake/ below the home.",
    )
    aws_endpoint_url: str | None = Field(
        default=None, description="Where an s3:// lake is when it is not Amazon's."
    )
    query_text: QueryTextMode = Field(
        default=QueryTextMode.STORE,
        description="What events keep of a question: store, hash (a key that equal questions share) or drop.",
    )
    query_text_days: int | None = Field(
        default=90, ge=1, le=36_500, description="Local days that words of questions are kept."
    )
    query_key_secret: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="Secret behind the keys of questions; unset: keys/ below the home.",
    )
    event_days: int | None = Field(
        default=None, ge=2, le=36_500, description="Local days of events that Postgres keeps."
    )
    lake_days: int | None = Field(
        default=None, ge=2, le=36_500, description="Local days of events that the lake keeps."
    )
    change_log_days: int = Field(
        default=30,
        ge=2,
        le=36_500,
        description="Days that changes are kept once they were followed.",
    )
    record_days: int = Field(
        default=400,
        ge=2,
        le=36_500,
        description="Days of records about runs, checks, refusals and of closed gaps that are kept.",
    )
    log_days: int = Field(
        default=90,
        ge=2,
        le=36_500,
        description="Days that log files and the run history of the UI are kept.",
    )
    threadhouse_token: SecretStr | None = Field(
        default=None,
        description="Token of whoever asks, for `threadhouse query`, `feedback` and `mcp`.",
    )
    token_keys: Path | None = Field(
        default=None,
        description="JWK set whose keys are trusted; unset: keys/ below the home.",
    )
    token_issuer: str = Field(
        default="threadhouse", min_length=1, max_length=500, description="`iss` of every token."
    )
    token_audience: str = Field(
        default="threadhouse",
        min_length=1,
        max_length=500,
        description="`aud` of every token: this service, not who reads.",
    )
    # Clocks of machines that ask a time server differ by less than a second; 30 s forgives one that has drifted.
    token_leeway_s: int = Field(
        default=30, ge=0, le=300, description="How far clocks may differ when a token is checked."
    )
    # There is no list of revoked tokens: until its key is retired a token is good for its whole life. A month is what people
    # plan for when they put one into a configuration file.
    token_max_lifetime_s: int = Field(
        default=30 * 86_400,
        ge=60,
        le=366 * 86_400,
        description="A token that lives longer is refused, whoever signed it.",
    )
    search_rerank_enabled: bool = Field(
        default=True,
        description="False leaves hits in the order of their fused scores, in every collection.",
    )
    # Enough that one lost in ten is five, few enough that a night on which something changed hardly notices.
    replay_questions: int = Field(
        default=50,
        ge=0,
        le=1000,
        description="Recent questions that are asked again before anything is published; 0 asks none.",
    )
    # One in ten: a thread that somebody merges or retires costs a few, a broken hub costs most.
    replay_loss_share: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Share of them that may lose their answer before the nightly stops and asks.",
    )
    executor: Executor = Field(
        default=Executor.IN_PROCESS,
        description="What runs the steps of a job: in_process, multiprocess or celery.",
    )
    executor_url: SecretStr | None = Field(
        default=None, description="Broker of celery, as celery writes it."
    )
    executor_results_url: SecretStr | None = Field(
        default=None, description="Where celery keeps results; unset: rpc://, over the broker."
    )
    embed_buckets: int | None = Field(
        default=None,
        ge=0,
        le=1024,
        description="Steps that embedding is divided into; unset: none in one process, else 8.",
    )
    # Only what a lost notification costs; a look at an empty log takes a few milliseconds.
    sync_poll_s: float = Field(
        default=30.0,
        ge=0.1,
        le=86_400,
        description="`threadhouse listen` looks for changes this often without being told of one.",
    )
    # Long enough for the statements of one import to arrive together, short beside an embedding.
    sync_debounce_ms: int = Field(
        default=200,
        ge=0,
        le=60_000,
        description="How long `threadhouse listen` waits for more after a first change.",
    )
    # Half a minute is longer than any publish step measured and short enough that a person still
    # waits for the message.
    lock_timeout_s: float = Field(
        default=30.0, gt=0, le=3600, description="How long to wait for a locked store."
    )

    @field_validator("threadhouse_home", "embedding_path", "token_keys")
    @classmethod
    def _be_absolute(cls, value: Path | None) -> Path | None:
        # A later chdir (Dagster does one per code location) must not move the home.
        try:
            return value.expanduser().absolute() if value is not None else None
        except RuntimeError as error:
            message = "the user after ~ has no home folder"
            raise ValueError(message) from error

    @field_validator("threadhouse_tz")
    @classmethod
    def _be_a_known_zone(cls, value: str) -> str:
        try:
            return ZoneInfo(value).key
        except (KeyError, ValueError, OSError) as error:
            message = "it is not a time zone name such as Asia/Ho_Chi_Minh or UTC"
            raise ValueError(message) from error

    @field_validator("database_url")
    @classmethod
    def _be_a_postgres_address(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict

        message = "it is not a PostgreSQL address such as postgresql://user@host:5432/database"
        # libpq quotes the text it cannot parse, password included, so its error is not chained.
        try:
            parts = conninfo_to_dict(value.get_secret_value())
        except ProgrammingError:
            raise ValueError(message) from None
        # An @ or / in a password ends it early: its rest would pass for host or port, and be shown.
        misplaced = any("@" in str(parts.get(name) or "") for name in ("host", "port", "dbname"))
        if misplaced or not str(parts.get("port") or "0").replace(",", "").isdigit():
            message = "its port is no number, or its password holds a character that must be encoded (%40 for @, %2F for /)"
            raise ValueError(message)
        return value

    @field_validator("qdrant_url", "aws_endpoint_url")
    @classmethod
    def _be_a_web_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        try:
            has_port_of_tcp = parts.port is None or parts.port > 0
        except ValueError:
            has_port_of_tcp = False
        if parts.scheme not in {"http", "https"} or not parts.hostname or not has_port_of_tcp:
            message = "it is not a web address such as http://localhost:6333"
            raise ValueError(message)
        if parts.username or parts.password:
            instead = {"qdrant_url": "the key into QDRANT_API_KEY"}.get(
                info.field_name or "", "them into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
            message = f"it carries credentials, which would show in logs (put {instead})"
            raise ValueError(message)
        return value

    @model_validator(mode="after")
    def _keep_files_as_long_as_rows(self) -> Self:
        if self.lake_days is not None and (
            self.event_days is None or self.lake_days < self.event_days
        ):
            message = (
                "LAKE_DAYS cannot be used: days that PostgreSQL keeps stay in the lake; set EVENT_DAYS to as many days or "
                "fewer"
            )
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _name_the_broker(self) -> Self:
        if self.executor is Executor.CELERY and self.executor_url is None:
            message = "EXECUTOR=celery needs EXECUTOR_URL, the address of its broker"
            raise ValueError(message)
        return self

    @classmethod
    def from_environment(cls) -> Self:
        """Read the process environment.

        Raises:
            ConfigurationError: A value is not usable; the sentence names the variable and never
                repeats its value.
        """
        try:
            return cls()
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            variable = ".".join(str(part) for part in first["loc"]).upper()
            reason = first["msg"].removeprefix("Value error, ")
            if not variable:  # values that do not go together; the reason names them
                raise ConfigurationError(f"{reason}.") from None
            message = (
                f"{variable} cannot be used: {reason[:1].lower()}{reason[1:]}; correct it or unset "
                "it."
            )
            raise ConfigurationError(message) from None

    @property
    def home(self) -> Path:
        """``threadhouse_home``, absolute."""
        return self.threadhouse_home

    @property
    def buckets(self) -> int:
        """Steps that embedding is divided into; 0 leaves it to the publish."""
        if self.embed_buckets is not None:
            return self.embed_buckets
        return 0 if self.executor is Executor.IN_PROCESS else DEFAULT_BUCKETS

    @property
    def zone(self) -> ZoneInfo:
        """``threadhouse_tz`` as a zone."""
        return ZoneInfo(self.threadhouse_tz)
