"""Tasks of Ray that share an account: `python ray_tiles.py`, on one machine or in a cluster.

The resource travels to the workers with the task, and each worker connects by itself: take an address that all
nodes reach. A pickle of it holds the token, if there is one.
"""

import os

import ray
import requests

import rampmeter

API = os.environ.get("API_URL", "http://127.0.0.1:9490/process")
api = rampmeter.connect(os.environ.get("RAMPMETER_URL", "http://127.0.0.1:9480")).resource("my-api")


@ray.remote
def fetch(number: int) -> int:
    """Calls the API for one page. Its status."""
    return api.run(1, lambda: requests.get(API, params={"n": number}, timeout=60)).status_code


if __name__ == "__main__":
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    statuses = ray.get([fetch.remote(number) for number in range(int(os.environ.get("PAGES", "20")))])
    print(statuses.count(200), "pages")
    ray.shutdown()
