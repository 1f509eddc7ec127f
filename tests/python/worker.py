import asyncio, json, os, urllib.error, urllib.request
import nats  # pip install nats-py

async def main():
    client = await nats.connect(os.environ.get("RAMPMETER_NATS", "nats://127.0.0.1:4222"))
    ask = {"cost": {"requests": 1, "processing-units": 2}, "mode": "wait"}
    answer = await client.request("rampmeter.permit.sentinel-hub", json.dumps(ask).encode(), timeout=600)
    permit = json.loads(answer.data)  # or a refusal, which says why
    await asyncio.sleep(permit["delay_ms"] / 1000)
    status = await asyncio.to_thread(call)
    settle = {"id": permit["id"], "response": {"status": status}}
    await client.publish("rampmeter.settle.sentinel-hub", json.dumps(settle).encode())
    await client.drain()

def call():  # the API, which costs two processing units here
    try:
        return urllib.request.urlopen(os.environ["API_URL"] + "/process?processing-units=2").status
    except urllib.error.HTTPError as error:
        return error.code

asyncio.run(main())
