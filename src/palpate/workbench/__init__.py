"""`palpate serve`: one local web page for the people that an audit needs, and for whoever asks "what if?".

    options   how it was started, and under which names it may be asked for
    store     what people enter, in SQLite: what was acknowledged is on the disk
    people    who may do what: roles, personal links, sessions
    log       who did what, without text of notes
    guard     what every request has to pass: host, size, rate, session, origin, CSRF token
    sections  how a section plugs in: its tables, its doors, who may open them
    pages     templates, the texts of one language in one file, and what is refused
    access    entering, the first page, people
    shelf     the runs
    runs ...  the sections

Pages are rendered here and work without a script; `static/bench.js` adds keys, parts that load anew, and forms that
do not load the whole page. Nothing is loaded from elsewhere. Texts of notes are on a page only with `--show-notes`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from palpate.errors import ConfigError
from palpate.registry import optional
from palpate.workbench.options import BenchOptions
from palpate.workbench.people import COORDINATOR, Register, read_roles


def people_of(given: Sequence[str]) -> dict[str, frozenset[str]]:
    """`Dr. A=rater` as a name and its roles.

    >>> people_of(["Dr. A=rater,coder"]) == {"Dr. A": {"rater", "coder"}}
    True
    """
    people: dict[str, frozenset[str]] = {}
    for each in given:
        name, equals, roles = each.rpartition("=")
        if not equals or not name.strip() or not roles.strip():
            raise ConfigError(f"--person {each}: expected NAME=ROLE", hint='for example --person "Dr. A=rater"')
        name = " ".join(name.split())
        if name.lower() in {known.lower() for known in people}:
            raise ConfigError(
                f"--person {each}: '{name}' is named twice", hint="give all roles at once: NAME=ROLE,ROLE"
            )
        people[name] = read_roles(roles)
    return people


def new_tokens(register: Register, people: Mapping[str, frozenset[str]], days: float) -> dict[str, str]:
    """The tokens of the coordinator and of everybody who is new or has other roles than before."""
    own = next((roles for name, roles in people.items() if name.lower() == COORDINATOR), frozenset[str]())
    named = {COORDINATOR: own | {COORDINATOR}}
    named |= {name: roles for name, roles in people.items() if name.lower() != COORDINATOR}
    known = {person.name.lower(): person.roles for person in register.everybody()}
    changed = [name for name, roles in named.items() if name == COORDINATOR or known.get(name.lower()) != roles]
    return {name: register.add(name, named[name], days, replace=True) for name in changed}


def serve(
    options: BenchOptions,
    *,
    people: Mapping[str, frozenset[str]],
    tell: Callable[[str, str], None],
) -> None:
    """Run the workbench until it is stopped. `tell` gets the name and the link of each person, once.

    The links of people that an earlier start named stay as they were, unless their roles are others now; the
    coordinator's is new.
    """
    for module in ("starlette", "uvicorn", "python_multipart"):
        optional(module, extra="workbench", needed_for="palpate serve")
    from palpate.workbench.access import link
    from palpate.workbench.app import make_bench, make_server
    from palpate.workbench.runs import shelf_of
    from palpate.workbench.whatif import warm_up

    options.check_port()
    bench = make_bench(options)
    shelf_of(bench)
    for name, token in new_tokens(bench.register, people, options.days).items():
        tell(name, link(options.origin, token))
    bench.log.write("started", host=options.host, port=options.port, notes=options.show_notes)
    threading.Thread(target=warm_up, args=(bench,), daemon=True).start()
    make_server(bench).run()
