"""`palpate serve`: one local web page for the people that an audit needs, and for whoever asks "what if?".

    options   how it was started, and under which names it may be asked for
    store     what people enter, in SQLite: what was acknowledged is on the disk
    people    who may do what: roles, personal links, sessions
    log       who did what, without text of notes
    guard     what every request has to pass: host, size, rate, session, origin, CSRF token
    sections  how a section plugs in: its tables, its doors, who may open them
    pages     templates, and the texts of one language in one file
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
from palpate.workbench.people import COORDINATOR, read_roles


def people_of(given: Sequence[str]) -> dict[str, frozenset[str]]:
    """`Dr. A=rater` as a name and its roles.

    >>> people_of(["Dr. A=rater,coder"]) == {"Dr. A": {"rater", "coder"}}
    True
    """
    people = {}
    for each in given:
        name, equals, roles = each.rpartition("=")
        if not equals or not name.strip() or not roles.strip():
            raise ConfigError(f"--person {each}: expected NAME=ROLE", hint='for example --person "Dr. A=rater"')
        people[name.strip()] = read_roles(roles)
    return people


def serve(
    options: BenchOptions,
    *,
    people: Mapping[str, frozenset[str]],
    tell: Callable[[str, str], None],
) -> None:
    """Run the workbench until it is stopped. `tell` gets the name and the link of each person, once.

    The links of people that an earlier start named stay as they were; the coordinator's is new.
    """
    named = {COORDINATOR: read_roles(COORDINATOR), **people}
    for module in ("starlette", "uvicorn", "python_multipart"):
        optional(module, extra="workbench", needed_for="palpate serve")
    from palpate.workbench.access import link
    from palpate.workbench.app import make_bench, make_server
    from palpate.workbench.runs import shelf_of
    from palpate.workbench.whatif import warm_up

    options.check_port()
    bench = make_bench(options)
    shelf_of(bench)
    known = {person.name.lower() for person in bench.register.everybody()}
    for name, roles in named.items():
        if name == COORDINATOR or name.lower() not in known:
            tell(name, link(options.origin, bench.register.add(name, roles, options.days, replace=True)))
    bench.log.write("started", host=options.host, port=options.port, notes=options.show_notes)
    threading.Thread(target=warm_up, args=(bench,), daemon=True).start()
    make_server(bench).run()
