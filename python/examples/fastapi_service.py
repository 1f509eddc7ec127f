"""A service of FastAPI that calls a limited API: `uvicorn fastapi_service:app`.

All its requests share one client, which lives as long as the service. A caller whose call can't start within
two seconds is told when to come back.
"""

import math
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

import rampmeter

API = os.environ.get("API_URL", "http://127.0.0.1:9490/process")
api = rampmeter.connect(os.environ.get("RAMPMETER_URL", "http://127.0.0.1:9480")).resource("my-api")


@asynccontextmanager
async def lifespan(service: FastAPI) -> AsyncIterator[None]:
    async with httpx.AsyncClient(timeout=60) as client:
        service.state.client = rampmeter.httpx.with_permits(client, api, max_wait=2)
        yield
    await api.client.aclose()


app = FastAPI(lifespan=lifespan)


@app.exception_handler(rampmeter.NotInTime)
async def late(_: Request, error: rampmeter.NotInTime) -> JSONResponse:
    """Tells a caller when to come back."""
    headers = {"Retry-After": str(math.ceil(error.retry_after or 1))}
    return JSONResponse({"detail": str(error)}, status_code=503, headers=headers)


@app.get("/tiles/{number}")
async def tile(request: Request, number: int) -> dict[str, int]:
    """Calls the API for one tile."""
    answer = await request.app.state.client.get(API, params={"n": number})
    return {"tile": number, "status": answer.status_code}
