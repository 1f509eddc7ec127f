"""Writes many faults into one program, and an environment variable chooses one at run time.

A function with faults becomes a match on the fault's number, with one arm for each changed body and
the function's own body last. (Untch, Offutt and Harrold, "Mutation analysis using mutant
schemata", 1993.)
"""

import re
from collections import defaultdict
from dataclasses import dataclass

# The variable that chooses a fault, and the code that reads it, which ends each library with
# faults. The name does not begin like Rampmeter's, because tests start processes without those.
VARIABLE = "PLANTED_FAULT"
PLANTED_FAULT = f"""
pub(crate) fn planted_fault() -> usize {{
    static NUMBER: std::sync::LazyLock<usize> =
        std::sync::LazyLock::new(|| std::env::var("{VARIABLE}").map_or(0, |number| number.parse().unwrap()));
    *NUMBER
}}
"""
# A constant function asks for no variable, and the arms of `impl` mostly have several types.
NO_SCHEMA = re.compile(r"\bconst (async )?fn\b|->.*\bimpl\b", re.DOTALL)


class Misplaced(Exception):
    """A fault that has no place in the code, or several."""


@dataclass(frozen=True)
class Site:
    """Where a fault is in a file: the body of its function, and the body with the fault."""

    path: str
    head: str
    body: slice
    changed: str

    def fits_schema(self):
        return not NO_SCHEMA.search(self.head)


def functions(text, name):
    """The functions of this name, from the line that begins them to their closing brace."""
    head = rf"^( *)(?:pub(?:\([^)\n]*\))? )?(?:const |async )*fn {name}\b"
    one_line, more_lines = r".*[};]$", r"(?s:.*?)^\1(?:\}|\).*;)$"
    return re.finditer(f"{head}(?:{one_line}|{more_lines})", text, re.MULTILINE)


def find(root, fault):
    """The one site of a fault in the tree at `root`."""
    pattern = re.compile(fault.pattern, re.MULTILINE)
    matches = [
        (path, function, place)
        for path in sorted((root / fault.part.folder).rglob("*.rs"))
        for function in functions(path.read_text(), fault.function)
        for place in pattern.finditer(function.string, function.start(), function.end())
    ]
    if len(matches) != 1:
        where = f"{len(matches)} places of `fn {fault.function}` in {fault.part.folder}"
        raise Misplaced(f"{fault.name}: `{fault.pattern}` matches at {where}")
    [(path, function, place)] = matches
    text, start = function.string, body_start(function)
    changed = text[start : place.start()] + place.expand(fault.planted) + text[place.end() : function.end()]
    if place.start() < start:
        raise Misplaced(f"{fault.name}: `{fault.pattern}` matches outside the body of `fn {fault.function}`")
    return Site(str(path.relative_to(root)), text[function.start() : start], slice(start, function.end()), changed)


def body_start(function):
    """The first brace that is in no parentheses."""
    depth = 0
    for at in range(function.start(), function.end()):
        character = function.string[at]
        depth += (character in "([") - (character in ")]")
        if character == "{" and depth == 0:
            return at
    return function.end()


def write(text, sites, alone=None):
    """The file with an arm for each site by number, and the lines of each arm.

    The fault that is `alone` has no arm: its changed body takes the place of the function's own.
    """
    by_body = defaultdict(dict)
    for number, site in sites.items():
        by_body[site.body.start, site.body.stop][number] = site.changed
    own = {}
    if alone:
        own[alone.body.start, alone.body.stop] = alone.changed
    pieces, lines, at = [], [], 0

    def add(piece, *numbers):
        first = sum(piece.count("\n") for piece in pieces) + 1
        pieces.append(piece)
        lines.append((first, first + piece.rstrip("\n").count("\n"), numbers))

    for start, stop in sorted(by_body | own):
        arms = by_body[start, stop]
        body = own.get((start, stop), text[start:stop])
        add(text[at:start])
        if arms:
            add("{ match crate::planted_fault() {\n")
        for number, changed in arms.items():
            add(f"{number} => {changed}\n", number)
        # An error here is one of several bodies that do not fit together.
        add(f"_ => {body}\n}} }}" if arms else body, *arms)
        at = stop
    add(text[at:])
    return "".join(pieces), lines
