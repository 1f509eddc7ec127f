"""Tiles of Sentinel Hub from several processes, which share one account.

It is an ordinary program of sentinelhub-py with one line more. With Dask, `install` belongs into
the function that the workers run: `client.run(rampmeter.sentinelhub.install, hub)`.
"""

import multiprocessing
import os

from sentinelhub import CRS, BBox, DataCollection, MimeType, SentinelHubRequest, SHConfig

import rampmeter
import rampmeter.sentinelhub

URL = os.environ.get("SH_BASE_URL", "https://services.sentinel-hub.com")
SCRIPT = """//VERSION=3
function setup() { return {input: ["B04", "B03", "B02"], output: {bands: 3}} }
function evaluatePixel(sample) { return [sample.B04, sample.B03, sample.B02] }"""

hub = rampmeter.connect(os.environ.get("RAMPMETER_URL", "http://127.0.0.1:9480")).resource("sentinel-hub")


def tile(number: int) -> int:
    """Downloads one tile."""
    rampmeter.sentinelhub.install(hub)  # the one line
    config = SHConfig()
    config.sh_base_url, config.sh_token_url = URL, f"{URL}/auth/realms/main/protocol/openid-connect/token"
    config.sh_client_id = os.environ.get("SH_CLIENT_ID", "")
    config.sh_client_secret = os.environ.get("SH_CLIENT_SECRET", "")
    collection = DataCollection.SENTINEL2_L2A.define_from("TILES", service_url=URL)
    request = SentinelHubRequest(
        evalscript=SCRIPT,
        input_data=[SentinelHubRequest.input_data(collection, time_interval=("2026-06-01", "2026-06-30"))],
        responses=[SentinelHubRequest.output_response("default", MimeType.PNG)],
        bbox=BBox((14.0 + number / 100, 46.0, 14.01 + number / 100, 46.01), CRS.WGS84),
        size=(512, 512),
        config=config,
    )
    return len(request.get_data())


if __name__ == "__main__":
    count = int(os.environ.get("TILES", "40"))
    SHConfig()  # Its first use writes a file, which four processes at once would read half written.
    with multiprocessing.Pool(4) as pool:
        print(sum(pool.map(tile, range(count))), "tiles")
