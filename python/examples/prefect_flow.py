"""A flow of Prefect whose tasks share an account: `python prefect_flow.py`.

A task waits for its turn before it calls. One that would wait for longer than a minute fails with `NotInTime`,
and Prefect runs it again: its place in the queue is then a new one.
"""

import os

import requests
from prefect import flow, task

import rampmeter

API = os.environ.get("API_URL", "http://127.0.0.1:9490/process")
api = rampmeter.connect(os.environ.get("RAMPMETER_URL", "http://127.0.0.1:9480")).resource("my-api")


@task(retries=3, retry_delay_seconds=60)
def fetch(number: int) -> int:
    """Calls the API for one page. Its status."""
    with api.permit(max_wait=60) as permit:
        response = requests.get(API, params={"n": number}, timeout=60)
        permit.settle(response)
        return response.status_code


@flow
def pages(count: int) -> int:
    """So many pages. How many there were."""
    return [future.result() for future in fetch.map(range(count))].count(200)


if __name__ == "__main__":
    print(pages(int(os.environ.get("PAGES", "20"))), "pages")
