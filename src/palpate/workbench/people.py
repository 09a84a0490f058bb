"""Who may do what: people with roles, the link that lets each in, and the sessions of their browsers.

A token and a session are kept as hashes, so the file of entries lets nobody in. Sessions are also in memory: every
request asks for one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from palpate.data.lexicons import NO_RATERS
from palpate.workbench.pages import BenchProblem
from palpate.workbench.store import BenchStore

COORDINATOR, VIEWER, RATER, CODER, REVIEWER = ROLES = ("coordinator", "viewer", "rater", "coder", "reviewer")
"""Who sees everything; sees runs and asks what-if; rates words; reviews evidence; reviews alterations."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS people (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE COLLATE NOCASE, roles TEXT NOT NULL,
    token TEXT NOT NULL UNIQUE, expires REAL NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS sessions (
    session TEXT PRIMARY KEY, person INTEGER NOT NULL REFERENCES people(id), csrf TEXT NOT NULL, expires REAL NOT NULL
) STRICT;
"""
DAY = 86_400.0
SESSION = 12 * 3_600.0
"""Seconds after which a person has to open the link again."""
LONGEST_NAME = 60


@dataclass(frozen=True)
class Person:
    """Somebody who was let in, or who may be."""

    id: int
    name: str
    roles: frozenset[str]
    expires: float

    def may(self, roles: Collection[str]) -> bool:
        """Whether one of these roles is theirs."""
        return bool(self.roles & set(roles))


class Session(NamedTuple):
    """A browser that a person opened the link with."""

    person: Person
    csrf: str
    expires: float


def hashed(secret: str) -> str:
    """What is kept of a token or a session; they are random, so one round is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


def read_roles(text: str) -> frozenset[str]:
    """`rater, coder` as roles."""
    roles = frozenset(part for part in text.replace(",", " ").split() if part)
    unknown = sorted(roles - set(ROLES))
    if unknown or not roles:
        known = ", ".join(ROLES)
        raise (
            BenchProblem("role", role=unknown[0][:40], known=known) if unknown else BenchProblem("no_role", known=known)
        )
    return roles


class Register:
    """The people and sessions of a workbench."""

    def __init__(self, store: BenchStore) -> None:
        self._store = store
        now = time.time()
        people = {person.id: person for person in self.everybody()}
        self._sessions: dict[str, Session] = {
            row["session"]: Session(people[row["person"]], row["csrf"], row["expires"])
            for row in store.read("SELECT * FROM sessions WHERE expires > ?", (now,))
        }

    def everybody(self) -> list[Person]:
        """All people, in the order in which they were named."""
        rows = self._store.read("SELECT * FROM people ORDER BY id")
        return [Person(row["id"], row["name"], read_roles(row["roles"]), row["expires"]) for row in rows]

    def named(self, role: str) -> list[Person]:
        """The people with a role."""
        return [person for person in self.everybody() if role in person.roles]

    def add(self, name: str, roles: Collection[str], days: float, *, replace: bool = False) -> str:
        """A person's token, which is shown once; with `replace`, of one who is known: the earlier one ends."""
        name = " ".join(name.split())
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            raise BenchProblem("name", n=LONGEST_NAME)
        if name.lower() in (*NO_RATERS, "clinicians"):
            raise BenchProblem("name_reserved", name=name)
        token, until = secrets.token_urlsafe(24), time.time() + days * DAY
        known = self._store.read("SELECT id FROM people WHERE name = ?", (name,))
        if known and not replace:
            raise BenchProblem("name_taken", name=name)
        values = (name, " ".join(sorted(roles)), hashed(token), until)

        def change(db: object) -> None:
            execute = db.execute  # type: ignore[attr-defined]
            if known:
                execute("UPDATE people SET roles=?, token=?, expires=? WHERE id=?", (*values[1:], known[0]["id"]))
                execute("DELETE FROM sessions WHERE person=?", (known[0]["id"],))
            else:
                execute("INSERT INTO people (name, roles, token, expires) VALUES (?, ?, ?, ?)", values)

        self._store.write(change)
        if known:
            self._forget(known[0]["id"])
        return token

    def renew(self, person: int, days: float) -> tuple[str, str]:
        """A new token for somebody, and the name; the earlier one and its sessions end."""
        found = next((each for each in self.everybody() if each.id == person), None)
        if found is None:
            raise BenchProblem("no_person")
        return found.name, self.add(found.name, found.roles, days, replace=True)

    def shut_out(self, person: int) -> str:
        """End a person's link and sessions; what they entered stays. Returns the name."""
        found = next((each for each in self.everybody() if each.id == person), None)
        if found is None:
            raise BenchProblem("no_person")

        def change(db: object) -> None:
            execute = db.execute  # type: ignore[attr-defined]
            execute("UPDATE people SET token=?, expires=0 WHERE id=?", (hashed(secrets.token_hex()), person))
            execute("DELETE FROM sessions WHERE person=?", (person,))

        self._store.write(change)
        self._forget(person)
        return found.name

    def _forget(self, person: int) -> None:
        self._sessions = {key: each for key, each in self._sessions.items() if each.person.id != person}

    def enter(self, token: str) -> tuple[str, Session] | None:
        """Open a session with a token; None where it is wrong or has expired."""
        rows = self._store.read("SELECT * FROM people WHERE token = ?", (hashed(token.strip()),))
        if not rows or rows[0]["expires"] <= time.time():
            return None
        row = rows[0]
        person = Person(row["id"], row["name"], read_roles(row["roles"]), row["expires"])
        key = secrets.token_urlsafe(32)
        session = Session(person, secrets.token_urlsafe(24), min(time.time() + SESSION, person.expires))
        values = (hashed(key), person.id, session.csrf, session.expires)
        self._store.write(lambda db: db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?)", values) and None)
        self._sessions[values[0]] = session
        return key, session

    def leave(self, key: str) -> None:
        """End a session."""
        self._sessions.pop(hashed(key), None)
        self._store.write(lambda db: db.execute("DELETE FROM sessions WHERE session = ?", (hashed(key),)) and None)

    def session(self, cookies: Mapping[str, str], name: str) -> Session | None:
        """The session of a browser, unless it has ended."""
        key = cookies.get(name)
        found = self._sessions.get(hashed(key)) if key else None
        return found if found is not None and found.expires > time.time() else None


def same_secret(given: str, wanted: str) -> bool:
    """Compared in a time that tells nothing."""
    return hmac.compare_digest(given.encode(), wanted.encode())
