"""Ten thousand prompts through one account, as fast as it allows, with openai-python and asyncio."""

import asyncio
import os

import openai

import rampmeter
import rampmeter.openai

hub = rampmeter.connect(os.environ.get("RAMPMETER_URL", "http://127.0.0.1:9480")).resource("openai", class_="bulk")
prompts = [f"What is {number} in words?" for number in range(int(os.environ.get("PROMPTS", "10000")))]


async def main() -> None:
    client = openai.AsyncOpenAI(http_client=rampmeter.openai.async_http_client(hub))
    at_once = asyncio.Semaphore(200)  # prompts in memory; the schedulers pace the calls

    async def answer(prompt: str) -> str:
        async with at_once:
            message = {"role": "user", "content": prompt}
            done = await client.chat.completions.create(model="gpt-5-mini", messages=[message], max_tokens=40)  # type: ignore[list-item]
            return done.choices[0].message.content or ""

    answers = await asyncio.gather(*map(answer, prompts))
    print(len(answers), "answers,", sum(map(len, answers)), "characters,", hub.client.stats())
    await client.close()


asyncio.run(main())
