import asyncio, json, os
from urllib.request import urlopen
import nats  # pip install nats-py

async def main():
    client = await nats.connect(os.environ.get("RAMPMETER_NATS", "nats://127.0.0.1:4222"))
    ask = {"cost": {"requests": 1, "processing-units": 2}, "mode": "wait"}
    answer = await client.request("rampmeter.permit.sentinel-hub", json.dumps(ask).encode(), timeout=600)
    permit = json.loads(answer.data)
    await asyncio.sleep(permit["delay_ms"] / 1000)
    response = await asyncio.to_thread(urlopen, os.environ["API_URL"])
    settle = {"id": permit["id"], "response": {"status": response.status}}
    await client.publish("rampmeter.settle.sentinel-hub", json.dumps(settle).encode())
    await client.drain()

asyncio.run(main())
