"""Permits over HTTP: a small client of HTTP/1.1, for threads and for asyncio.

One process has one pool of connections, and every event loop one of its own. A connection carries
one question at a time; settles go out on idle connections without waiting for their answers.
"""
