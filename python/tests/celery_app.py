"""The application of Celery from the examples, with a folder as its broker, and a task of the tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import work
from servers import ROOT

sys.path.insert(0, str(ROOT / "python" / "examples"))
from celery_tasks import api, app, fetch

FOLDER = Path(os.environ["CELERY_FOLDER"])
app.conf.broker_url = "filesystem://"
app.conf.result_backend = f"file://{FOLDER / 'results'}"
app.conf.broker_transport_options = {
    "data_folder_in": str(FOLDER / "messages"),
    "data_folder_out": str(FOLDER / "messages"),
    "control_folder": str(FOLDER / "control"),
}
app.conf.broker_connection_retry_on_startup = True
# Asked before Celery forks, as programs may do.
api.permit().acquire().give_back()

__all__ = ["app", "call", "fetch"]


@app.task
def call(url: str) -> tuple[int, int]:
    """One call with its permit: its status, and the process that made it."""
    return work.call_here(api, url)
