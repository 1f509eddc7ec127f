"""An application of Celery whose tasks call with permits. Its broker is a folder."""

from __future__ import annotations

import os
from pathlib import Path

from celery import Celery

import rampmeter
import work

FOLDER = Path(os.environ["CELERY_FOLDER"])
URL = os.environ["RAMPMETER_URL"]

app = Celery("calls", broker="filesystem://", backend=f"file://{FOLDER / 'results'}")
app.conf.broker_transport_options = {
    "data_folder_in": str(FOLDER / "messages"),
    "data_folder_out": str(FOLDER / "messages"),
    "control_folder": str(FOLDER / "control"),
}
app.conf.broker_connection_retry_on_startup = True
# Made before Celery forks, as programs do.
hub = rampmeter.connect(URL).resource("api")
hub.permit().acquire().give_back()


@app.task
def call(url: str) -> tuple[int, int]:
    """One call with its permit: its status, and the process that made it."""
    return work.call_here(hub, url)
