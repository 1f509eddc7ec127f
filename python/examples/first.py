"""Calls an API that allows a few requests at a time, and is never told 429."""

import os
import sys

import requests

import rampmeter

hub = rampmeter.connect(os.environ.get("RAMPMETER_URL", "http://127.0.0.1:9480")).resource("sentinel-hub")
url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:9490/process?processing-units=2"

for _ in range(20):
    with hub.permit({"requests": 1, "processing-units": 2}, max_wait=60) as permit:
        response = requests.get(url, timeout=60)
        permit.settle(response)
    print(response.status_code, f"after {permit.waited:.2f} s")
