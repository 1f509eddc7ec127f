"""What a client decides: when to ask, when to ask again, when to give up.

Nothing here has a clock, a socket or a thread. Time is an argument, in seconds on a clock that only
goes forward. An `Ask` yields effects, and its driver sends back what came of them.
"""
