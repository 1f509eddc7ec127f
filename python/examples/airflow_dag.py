"""A DAG of Airflow whose tasks share an account, with all workers and other programs.

Airflow's pools count tasks at once; the schedulers of Rampmeter pace their calls. A task that waits holds its
slot, so that it waits for ten minutes at most: then it fails with `NotInTime`, and Airflow runs it again.
`python airflow_dag.py` runs it once, without a scheduler of Airflow.
"""

import os
from datetime import datetime, timedelta

import requests
from airflow.sdk import dag, task

import rampmeter

API = os.environ.get("API_URL", "http://127.0.0.1:9490/process")
api = rampmeter.connect(os.environ.get("RAMPMETER_URL", "http://127.0.0.1:9480")).resource("my-api")


@dag(schedule=None, start_date=datetime(2026, 1, 1), catchup=False)
def pages() -> None:
    """Fetches some pages."""

    @task(retries=3, retry_delay=timedelta(minutes=1), max_active_tis_per_dag=16)
    def fetch(number: int) -> int:
        with api.permit(max_wait=600, class_=os.environ.get("CLASS")) as permit:
            response = requests.get(API, params={"n": number}, timeout=60)
            permit.settle(response)
            return response.status_code

    @task
    def total(statuses: list[int]) -> None:
        print(list(statuses).count(200), "pages")

    total(fetch.expand(number=list(range(int(os.environ.get("PAGES", "20"))))))


flow = pages()

if __name__ == "__main__":
    flow.test()
