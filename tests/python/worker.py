import asyncio, json, math, os, sys, time, uuid
from urllib.error import HTTPError
from urllib.request import urlopen
import nats  # pip install nats-py

RESOURCE, COST = "sentinel-hub", {"requests": 1, "processing-units": 2}
LONGEST_PAUSE_MS = 60_000  # a spent quota may be back in a month: that is an error

async def ask(client, id, since):
    """Asks under this id until a scheduler answers."""
    while True:
        waited_ms = 1000 * (time.monotonic() - since)
        request = json.dumps({"id": id, "cost": COST, "mode": "wait", "age_ms": waited_ms})
        try:
            reply = await client.request(f"rampmeter.permit.{RESOURCE}", request.encode(), timeout=2)
            answer = json.loads(reply.data)
            if answer.get("code") != "unavailable":
                return answer
        except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
            pass  # the request still waits, or a new leader takes over: its id keeps its place
        await asyncio.sleep(0.1)

async def settle(client, **how):
    await client.publish(f"rampmeter.settle.{RESOURCE}", json.dumps(how).encode())

async def call(client, get):
    """Calls `get` with a permit, and again after a 429. Returns the answer's status and body."""
    since, id = time.monotonic(), str(uuid.uuid4())
    while True:
        answer = await ask(client, id, since)
        if answer["status"] == "granted":
            await asyncio.sleep(answer["delay_ms"] / 1000)
            how = {"id": id, "used": True}
            try:
                status, headers, body = await asyncio.to_thread(get)
                how["response"] = {"status": status, "headers": headers}
            finally:  # a call that timed out may have arrived: it is settled as used
                await settle(client, **how)
            if status != 429:
                return status, body
            id = str(uuid.uuid4())
        elif answer["code"] == "lapsed":  # the answer was lost, and its start is past
            await settle(client, id=id, used=False)
            id = str(uuid.uuid4())
        elif answer.get("retry_after_ms", math.inf) <= LONGEST_PAUSE_MS:
            await asyncio.sleep(answer["retry_after_ms"] / 1000)
        else:
            raise RuntimeError(answer["message"])

def get(url=os.environ.get("API_URL", "http://127.0.0.1:9490/process?processing-units=2")):
    """Status, headers that speak of limits, and body. Any HTTP client will do."""
    try:
        answer = urlopen(url, timeout=float(os.environ.get("API_TIMEOUT", 60)))
    except HTTPError as error:  # a 404 or a 429 is an answer, too
        answer = error
    with answer:
        headers = {name.lower(): value for name, value in answer.headers.items()}
        told = [name for name in headers if "ratelimit" in name or name == "x-processingunits-spent"]
        limits = {name: headers[name] for name in [*told, "retry-after"] if name in headers}
        return answer.status, limits, answer.read()

async def main():
    client = await nats.connect(os.environ.get("RAMPMETER_NATS", "nats://127.0.0.1:4222"))
    for _ in range(int(os.environ.get("CALLS", 20))):
        try:
            status, body = await call(client, get)
            print(status, len(body), "bytes")
        except OSError as error:
            print("no answer:", error)
        except RuntimeError as refusal:
            sys.exit(f"no permit: {refusal}")
    await client.drain()

asyncio.run(main())
