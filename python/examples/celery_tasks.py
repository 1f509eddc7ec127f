"""Tasks of Celery: one whose call can't start soon gives its process back, and comes again in time.

`celery -A celery_tasks worker` runs it, with any broker and any pool. Make the resource where Celery finds
its tasks, before it forks.
"""

import os
from typing import Any

import requests
from celery import Celery

import rampmeter

LONGEST = 2.0
"""Seconds that a task may occupy its process while it waits."""

app = Celery("calls", broker=os.environ.get("CELERY_BROKER", "redis://127.0.0.1"), backend="rpc://")
api = rampmeter.connect(os.environ.get("RAMPMETER_URL", "http://127.0.0.1:9480")).resource("my-api")


@app.task(bind=True, max_retries=None)
def fetch(self: Any, url: str) -> int:
    """Calls the API. Its status."""
    try:
        with api.permit(max_wait=LONGEST) as permit:
            response = requests.get(url, timeout=60)
            permit.settle(response)
            return response.status_code
    except rampmeter.NotInTime as late:
        raise self.retry(exc=late, countdown=late.retry_after or LONGEST) from late
