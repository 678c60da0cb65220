"""The object store behind an event lake, and the folder of this machine that mirrors it.

Belongs here: opening the store, bringing the folder up to date, publishing and removing a file, its faults as one sentence.
Does not belong here: what files hold and who may write them (``stores.lake``).

The store is the truth and the folder a copy of it that may be deleted at any time. A file of the folder counts only as long as
the note beside it names the object it was copied from and the size and time that it had then: whatever a kill leaves between
an object, its file and its note is copied again.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult

from filelock import FileLock

from threadhouse.retrieval.errors import ConfigurationError, StoreUnreachableError
from threadhouse.stores.durable_files import replace_durably

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig, S3Config

CREDENTIALS: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_SERVICE_ACCOUNT",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
"""Kinds of store, and the variables by which people usually say who they are to one. The library knows more of them."""

CONNECT_S: Final = timedelta(seconds=5)

SILENCE_S: Final = timedelta(seconds=20)
"""A store that says nothing for so long is taken for dead. How long a whole file takes depends on the line."""

WHOLE_REQUEST_S: Final = timedelta(hours=6)
"""The library has no word for "without limit"; its own half a minute would cut off a large day on a slow line."""

RETRIES: Final = 3
"""Within a second or two. What is longer than a hiccup is left to the retries of the job, which say what they wait for."""

_NOTE: Final = ".object"

_ASKED_THE_MACHINE: Final = (
    "/latest/api/token",
    "/latest/meta-data",
    "computeMetadata",
    "metadata/identity",
)
"""What the library asks for when no variable gives credentials. A machine of that cloud would have answered."""

OnStep = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ObjectMirror:
    """Objects below ``address``, and the files of ``root`` that are copies of them.

    Only objects in ``folder`` whose names ``names`` matches count; the bucket may hold whatever else it likes.
    """

    address: str
    endpoint: str | None
    root: Path
    folder: str
    names: re.Pattern[str]

    @classmethod
    def open(
        cls,
        parts: SplitResult,
        endpoint: str | None,
        copies: Path,
        folder: str,
        names: re.Pattern[str],
    ) -> ObjectMirror:
        """The store that an address names; nothing is asked of it yet.

        Args:
            parts: Of the address.
            endpoint: Of a store that speaks S3 and is not Amazon's.
            copies: Folder below which each address gets a folder of its own.
            folder: Beginning of their names.
            names: Of the objects that count.

        Raises:
            ConfigurationError: The address names no bucket, or holds what belongs into variables of its own.
        """
        prefix = parts.path.removeprefix("/").removesuffix("/")
        is_plain = not (parts.query or parts.fragment) and not {"", ".", ".."} & {
            *prefix.split("/")
        }
        if not re.fullmatch(r"[\w.-]+", parts.netloc) or (prefix and not is_plain):
            message = (
                f"LAKE_URL is no address such as {parts.scheme}://bucket/prefix; name bucket and prefix alone, and put "
                f"credentials into variables of their own ({CREDENTIALS[parts.scheme]})."
            )
            raise ConfigurationError(message)
        address = f"{parts.scheme}://{parts.netloc}/{prefix}".rstrip("/")
        endpoint = endpoint if parts.scheme == "s3" else None
        # Names of buckets and prefixes that only look alike get different folders.
        digest = hashlib.sha256(f"{endpoint} {address}".encode()).hexdigest()[:8]
        readable = re.sub(r"[^a-z0-9]+", "-", f"{parts.netloc}-{prefix}".lower()).strip("-")[:60]
        return cls(address, endpoint, copies / f"{readable}-{digest}", folder, names)

    def sizes(self) -> dict[str, int]:
        """Sizes in bytes of all objects, by name, without copying any.

        Raises:
            StoreUnreachableError: The store did not answer, or not to us.
        """
        return {name: size for name, (_, size) in self._listed().items()}

    def catch_up(self) -> None:
        """Make the folder what the store is: copy what is new or another, remove what is gone.

        Raises:
            StoreUnreachableError: The store did not answer, or not to us; what the folder has stays, and is not read.
        """
        # Before the list: what another process puts in place after it is not in the list, and must not be taken for gone.
        before = dict(self._files())
        listed = self._listed()
        for name, (version, _) in sorted(listed.items()):
            if self._note_of(name) != self._note(name, version):
                self._fetch(name, version)
        for name, note in before.items():
            if name not in listed:
                with self._placing():
                    if self._note_of(name) == note:
                        self._forget(name)

    def publish(self, aside: Path, target: Path, on_step: OnStep) -> None:
        """Put a finished file into the store, all at once, and then into its place in the folder.

        Raises:
            StoreUnreachableError: The store did not take it; the folder still holds what it held.
        """
        import obstore

        name = self._name_of(target)
        # Nobody copies an older object over the new file meanwhile.
        with self._placing():
            with self._speaking():
                done = obstore.put(self._store(), name, aside)
            on_step("object put")
            replace_durably(aside, target)
            self._keep_note(name, str(done["e_tag"]))

    def remove(self, target: Path) -> None:
        """Remove a file from the store, and then from the folder; one that is gone already is no fault."""
        import obstore

        name = self._name_of(target)
        with self._placing():
            with self._speaking(), suppress(FileNotFoundError):  # of stores that mind
                obstore.delete(self._store(), name)
            self._forget(name)

    def version_of(self, target: Path) -> str:
        """The ETag of the object that a file is a copy of; empty when it is none."""
        note = self._note_of(self._name_of(target))
        return note.split(" ")[0] if note else ""

    def _listed(self) -> dict[str, tuple[str, int]]:
        import obstore

        found: dict[str, tuple[str, int]] = {}
        with self._speaking():
            # Its other form of an answer is of a library that is not here.
            for chunk in obstore.list(self._store(), self.folder):  # pyright: ignore[reportUnknownMemberType]
                for each in chunk:
                    if self.names.fullmatch(each["path"]):
                        found[each["path"]] = (_plain(str(each["e_tag"])), each["size"])
        return found

    def _fetch(self, name: str, version: str) -> None:
        import obstore

        target = self.root / name
        with self._placing():
            # Another process of this machine may have been quicker.
            if self._note_of(name) == self._note(name, version):
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            aside = target.with_name(f".{target.name}.fetched")
            with self._speaking(), aside.open("wb") as file:
                try:
                    found = obstore.get(self._store(), name)
                except FileNotFoundError:
                    # Removed since the list; the next look finds that out.
                    return
                for block in found.stream():
                    file.write(block)
            replace_durably(aside, target)
            self._keep_note(name, str(found.meta["e_tag"]))

    def _files(self) -> Iterator[tuple[str, str | None]]:
        """Files of the folder and what their notes say of them."""
        for path in (self.root / self.folder).rglob("*"):
            name = path.relative_to(self.root).as_posix()
            if self.names.fullmatch(name):
                yield name, self._note_of(name)

    def _note_of(self, name: str) -> str | None:
        """The note of a file, as long as it is true of the file."""
        target = self.root / name
        try:
            note = _note_beside(target).read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        return note if note == self._note(name, note.split(" ")[0]) else None

    def _note(self, name: str, version: str) -> str:
        try:
            found = (self.root / name).stat()
        except FileNotFoundError:
            return f"{version} none"
        return f"{version} {found.st_size} {found.st_mtime_ns}"

    def _keep_note(self, name: str, version: str) -> None:
        note = self._note(name, _plain(version))
        _note_beside(self.root / name).write_text(note, encoding="utf-8")

    def _forget(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)
        _note_beside(self.root / name).unlink(missing_ok=True)

    def _name_of(self, target: Path) -> str:
        return target.relative_to(self.root).as_posix()

    @contextmanager
    def _placing(self) -> Generator[None, None, None]:
        """One file at a time changes hands on this machine; whoever waits, waits for the time of one."""
        self.root.mkdir(parents=True, exist_ok=True)
        with FileLock(self.root / ".objects.lock"):
            yield

    def _store(self) -> ObjectStore:
        if _first_process() != os.getpid():
            message = f"The event lake in {self._where} was used before this process was forked; start a process of its own."
            raise StoreUnreachableError(message)
        with self._speaking():
            return _open_store(self.address, self.endpoint)

    @contextmanager
    def _speaking(self) -> Generator[None, None, None]:
        """Turn faults of the library into one sentence. It quotes requests and answers, so nothing of its own is passed on."""
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError:
            raise StoreUnreachableError(self._no_bucket) from None
        except (BaseError, ValueError) as error:
            raise StoreUnreachableError(self._sentence(error)) from None

    def _sentence(self, error: Exception) -> str:
        said = str(error)
        variables = CREDENTIALS[self.address.partition(":")[0]]
        if any(path in said for path in _ASKED_THE_MACHINE) or "MissingAccount" in said:
            return f"The event lake in {self._where} needs credentials, and there are none; set {variables}."
        status = re.search(r"status code: (\d{3})", said)
        if status is not None and status[1] in {"401", "403"}:
            return f"The event lake in {self._where} does not let us in; check {variables} and what they may do."
        if status is not None and status[1] == "404":
            return self._no_bucket
        if status is not None and not status[1].startswith("5"):
            return f"The event lake in {self._where} refused a request ({status[1]}); check LAKE_URL and its region."
        if status is None and type(error).__name__ != "GenericError":
            return f"The event lake in {self._where} cannot be opened; check LAKE_URL, {variables}."
        answer = f"answers with {status[1]}" if status else "does not answer"
        return f"The event lake in {self._where} {answer}; check LAKE_URL and that the store runs."

    @property
    def _no_bucket(self) -> str:
        return f"The event lake is to be in {self._where}, and there is no such bucket; create it, or correct LAKE_URL."

    @property
    def _where(self) -> str:
        return f"{self.address} at {self.endpoint}" if self.endpoint else self.address


def _note_beside(target: Path) -> Path:
    return target.with_name(f".{target.name.removeprefix('.')}{_NOTE}")


def _plain(version: str) -> str:
    """Some stores put an ETag into quotes in one answer and not in another."""
    return version.strip('"').replace(" ", "")


@cache
def _first_process() -> int:
    """The process in which the library started its threads. A fork has none of them and would wait for ever."""
    return os.getpid()


@lru_cache(maxsize=4)
def _open_store(address: str, endpoint: str | None) -> ObjectStore:
    """A store with its connections, kept from one use to the next."""
    from obstore.store import from_url

    options: ClientConfig = {
        "connect_timeout": CONNECT_S,
        "read_timeout": SILENCE_S,
        "timeout": WHOLE_REQUEST_S,
        "allow_http": bool(endpoint and endpoint.startswith("http://")),
    }
    retries: RetryConfig = {"max_retries": RETRIES, "retry_timeout": timedelta(minutes=1)}
    config: S3Config = {"endpoint": endpoint} if endpoint else {}
    return from_url(address, config=config, client_options=options, retry_config=retries)
