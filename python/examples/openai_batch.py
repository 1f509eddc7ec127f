"""Ten thousand prompts through one account, as fast as it allows, with openai-python and asyncio.

`rampmeter init openai` writes its limits, which count each model by the label `model`: the adapter sends it.
"""

import asyncio
import os

import openai

import rampmeter
import rampmeter.openai

MODEL = "gpt-5-mini"
client = rampmeter.connect(os.environ.get("RAMPMETER_URL", "http://127.0.0.1:9480"))
hub = client.resource("openai")
prompts = [f"What is {number} in words?" for number in range(int(os.environ.get("PROMPTS", "10000")))]


async def main() -> None:
    model = openai.AsyncOpenAI(http_client=rampmeter.openai.async_http_client(hub))
    at_once = asyncio.Semaphore(200)  # prompts in memory; the schedulers pace the calls

    async def answer(prompt: str) -> str:
        async with at_once:
            message = {"role": "user", "content": prompt}
            done = await model.chat.completions.create(model=MODEL, messages=[message], max_tokens=40)  # type: ignore[list-item]
            return done.choices[0].message.content or ""

    answers = await asyncio.gather(*map(answer, prompts))
    print(len(answers), "answers,", sum(map(len, answers)), "characters,", client.stats())
    await model.close()


asyncio.run(main())
