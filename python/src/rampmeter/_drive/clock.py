"""The clock of this package. `rampmeter.testing` puts another one in its place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

now: Callable[[], float] = time.monotonic
"""The time in seconds."""

sleep: Callable[[float], None] = time.sleep
"""Waits in a thread."""

asleep: Callable[[float], Awaitable[None]] = asyncio.sleep
"""Waits in a task."""
