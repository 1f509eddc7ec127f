"""The headers that leave the process."""

from __future__ import annotations

import re

from rampmeter.outcome import OF_LIMITS
from servers import ROOT


def test_the_headers_that_speak_of_limits_are_those_of_the_protocol() -> None:
    rust = (ROOT / "protocol" / "src" / "headers.rs").read_text()
    listed = re.findall(r"OF_LIMITS: \[&str; \d+\] = \[([^\]]*)\]", rust)[0]
    assert set(re.findall(r'"(.+?)"', listed)) == OF_LIMITS
