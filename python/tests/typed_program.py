"""A program as users write it: `python/check` has mypy and pyright read it, and no test runs it."""

import aiohttp
import anthropic
import httpx
import openai
import requests

import rampmeter

hub = rampmeter.connect("http://127.0.0.1:9480").resource("api")
session = requests.Session()
session.mount("https://", rampmeter.requests.PermitAdapter(hub, cost=1, repeats=2))
client: httpx.Client = rampmeter.httpx.with_permits(httpx.Client(), hub, cost=lambda request: 2)
tasks: httpx.AsyncClient = rampmeter.httpx.with_permits(httpx.AsyncClient(), hub, not_accounts=["a"])
below = httpx.Client(transport=rampmeter.httpx.Transport(hub, httpx.HTTPTransport()))
chat = openai.OpenAI(http_client=rampmeter.openai.http_client(hub))
async_chat = openai.AsyncOpenAI(http_client=rampmeter.openai.async_http_client(hub))
claude = anthropic.Anthropic(http_client=rampmeter.anthropic.http_client(hub, money="usd", prices="prices.json"))


@hub.limited
def bare(number: int) -> int:
    return number


@hub.limited(cost=lambda text: len(text), max_wait=30)
async def ask(text: str) -> str:
    return text


number: int = bare(3)
status: int = hub.run(1, lambda: session.get("https://api.example.com"), max_wait=5).status_code
hub.run(1, lambda: 200, max_weight=5)  # type: ignore[call-arg]


@hub.limited(cost=lambda text, most: {"requests": 1, "tokens": len(text) + most})
def complete(text: str, most: int) -> bytes:
    return text[:most].encode()


def cost_of(text: str, most: int, *, tools: list[str]) -> dict[str, float]:
    return {"requests": 1, "tokens": len(text) + most + sum(map(len, tools))}


@hub.limited(cost=cost_of)
def use(text: str, most: int, *, tools: list[str]) -> int:
    return len(text) + most + len(tools)


async def main() -> None:
    async with hub.permit({"requests": 1, "tokens": 5}, class_="bulk", not_accounts={"a"}, timeout=5) as permit:
        waited: float = permit.waited
        permit.settle(rampmeter.Outcome(200), cost={"tokens": waited})
    answer = await hub.arun(1, lambda: tasks.get("https://api.example.com"), repeats=1, traceparent=None)
    await ask(answer.text)
    session = aiohttp.ClientSession(middlewares=(rampmeter.aiohttp.Permits(hub, cost=2),))
    async with session, session.get("https://api.example.com") as response:
        length: int = len(await response.read())
    await hub.client.aclose()
    print(length, complete("text", most=length))


def print_wait(permit: rampmeter.Permit) -> None:
    print(permit.account, permit.limited_by, permit.cost.get("requests", 1), dict(permit.left[0]))


def print_429(permit: rampmeter.Permit, outcome: rampmeter.Outcome) -> None:
    print(permit, outcome.headers.get("retry-after"))


with rampmeter.connect(["http://10.0.0.1:9480", "http://10.0.0.2:9480"], unreachable=rampmeter.Fail(5)) as client2:
    api = client2.resource("api", labels={"team": "a"}, on_wait=print_wait, on_429=print_429)
    try:
        with api.with_options(max_wait=3).try_permit() as now, rampmeter.testing.limits({"api": "5/s"}) as limits:
            now.settle(200)
            limits.advance(5)
    except rampmeter.NotInTime as late:
        print(late.retry_after or 0.0, late.code.upper(), client2.stats().granted)
    reserved: rampmeter.Permit = api.reserve(2, worth=5, or_=[{"labels": {"team": "b"}, "cost": 1}]).acquire()
    print(["a", "b"][reserved.way])
    reserved.give_back()
