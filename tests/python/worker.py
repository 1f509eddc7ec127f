import asyncio, json, os, time, uuid
from urllib.error import HTTPError
from urllib.request import urlopen
import nats  # pip install nats-py

async def permit(client, cost):
    since, id = time.monotonic(), str(uuid.uuid4())
    while True:
        ask = {"id": id, "cost": cost, "mode": "wait", "age_ms": 1000 * (time.monotonic() - since)}
        try:
            reply = await client.request("rampmeter.permit.sentinel-hub", json.dumps(ask).encode(), timeout=2)
        except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
            await asyncio.sleep(0.1)  # still waiting, or another scheduler leads: the id keeps its place and is charged once
            continue
        answer = json.loads(reply.data)
        if answer["status"] == "granted":
            await asyncio.sleep(answer["delay_ms"] / 1000)
            return id
        if answer["code"] == "lapsed":  # the answer was lost, and its start is past
            await settle(client, {"id": id, "used": False})
            id = str(uuid.uuid4())
        elif "retry_after_ms" in answer:
            await asyncio.sleep(answer["retry_after_ms"] / 1000)
        else:
            raise RuntimeError(answer["message"])

async def settle(client, how):
    await client.publish("rampmeter.settle.sentinel-hub", json.dumps(how).encode())

async def main():
    client = await nats.connect(os.environ.get("RAMPMETER_NATS", "nats://127.0.0.1:4222"))
    how = {"id": await permit(client, {"requests": 1, "processing-units": 2})}
    try:
        response = await asyncio.to_thread(urlopen, os.environ["API_URL"], None, 60)
    except HTTPError as refused:  # a 429 tells of limits as well
        response = refused
    except OSError:  # the call may have arrived: it counts as used
        response = None
    if response is not None:
        told = {name.lower(): value for name, value in response.headers.items()}
        limits = {name: value for name, value in told.items() if "ratelimit" in name or name == "retry-after"}
        how["response"] = {"status": response.status, "headers": limits}
    await settle(client, how)
    await client.drain()

asyncio.run(main())
