"""A downloader middleware for Scrapy: every request of every spider waits for its permit.

In the settings of a project:

    DOWNLOADER_MIDDLEWARES = {"scrapy_permits.PermitMiddleware": 990}   # near the downloader: retries pass it, too
    RAMPMETER_URL, RAMPMETER_RESOURCE = "http://127.0.0.1:9480", "my-api"

`request.meta["cost"]` is what a request costs, beside one request where it is missing.
"""

from __future__ import annotations

import os
from typing import Any

import scrapy
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response

import rampmeter


class PermitMiddleware:
    """Asks before a request is downloaded, and settles with its response."""

    def __init__(self, api: rampmeter.Resource) -> None:
        self.api = api

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> PermitMiddleware:
        settings = crawler.settings
        return cls(rampmeter.connect(settings.get("RAMPMETER_URL")).resource(settings["RAMPMETER_RESOURCE"]))

    async def process_request(self, request: Request) -> None:
        try:
            request.meta["permit"] = await self.api.permit(request.meta.get("cost", 1)).aacquire()
        except rampmeter.Refused as refusal:
            raise IgnoreRequest(str(refusal)) from refusal

    def process_response(self, request: Request, response: Response) -> Response:
        told = rampmeter.Outcome(response.status, response.headers.to_unicode_dict())
        request.meta.pop("permit").settle(told)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        if (permit := request.meta.pop("permit", None)) is not None:
            permit.settle(exception)


class Tiles(scrapy.Spider):
    """Fetches some pages."""

    name = "tiles"

    async def start(self) -> Any:
        """The requests."""
        for number in range(int(os.environ.get("PAGES", "20"))):
            yield Request(f"{os.environ.get('API_URL', 'http://127.0.0.1:9490/process')}?n={number}")

    def parse(self, response: Response) -> Any:
        """One page."""
        yield {"status": response.status}


if __name__ == "__main__":
    process = CrawlerProcess(
        {
            "DOWNLOADER_MIDDLEWARES": {PermitMiddleware: 990},
            "RAMPMETER_URL": os.environ.get("RAMPMETER_URL", "http://127.0.0.1:9480"),
            "RAMPMETER_RESOURCE": "my-api",
            "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
            "LOG_LEVEL": "WARNING",
        }
    )
    crawler = process.create_crawler(Tiles)
    process.crawl(crawler)
    process.start()
    print(crawler.stats.get_value("item_scraped_count"), "pages")
