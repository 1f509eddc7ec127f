"""Runs asks with clocks, threads and event loops.

`process` has what one process shares, `threads` drives asks of its threads, `loop` those of one
event loop.
"""
