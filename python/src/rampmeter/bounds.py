"""The bounds of the wire, each with its reason. The schedulers have the same."""

from typing import Final

MAX_UNITS: Final = 16
"""Units in one cost. Real policies count two or three; the rest is room."""

MAX_AMOUNT: Final = 1_000_000_000
"""The largest amount of one unit in one call."""

MAX_LABELS: Final = 16
"""Labels of one request. Limits match on a handful."""

MAX_LABEL_KEY: Final = 64
"""Characters in a label's key."""

MAX_LABEL_VALUE: Final = 256
"""Characters in a label's value; a route or a tenant fits, a document does not."""

MAX_WAYS: Final = 4
"""Other ways to make a call."""

MAX_NAME: Final = 64
"""Characters in the name of a resource, a unit or a class."""

MAX_HEADERS: Final = 64
"""Headers in one settle. Only headers that describe rate limits are of use."""

MAX_HEADER_NAME: Final = 64
"""Characters in the name of a header that is passed on."""

MAX_HEADER_VALUE: Final = 1024
"""Characters in one header's value."""

MAX_REQUEST: Final = 1 << 20
"""Bytes of one request. Schedulers accept less; more would only fill the network."""

MAX_BATCH: Final = 64
"""Requests in one message. More would save nothing."""

MAX_UNSENT: Final = 65_536
"""Settles that wait while no scheduler takes them; then the oldest counts as used."""
