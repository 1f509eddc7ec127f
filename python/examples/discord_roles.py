"""Roles for the members of many Discord guilds: each guild has limits of its own.

The resource's limits name `key = ["guild"]`. A call of one guild that waits delays no other guild.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import requests

import rampmeter
import rampmeter.requests

API = os.environ.get("DISCORD_API", "https://discord.com/api/v10")
hub = rampmeter.connect(os.environ.get("RAMPMETER_URL", "http://127.0.0.1:9480")).resource("discord")

session = requests.Session()
session.headers["Authorization"] = f"Bot {os.environ.get('DISCORD_TOKEN', '')}"
guild_of = lambda request: {"guild": request.url.split("/guilds/")[1].split("/")[0]}  # noqa: E731
session.mount(API, rampmeter.requests.PermitAdapter(hub, labels=guild_of))


def add_role(guild: int, member: int, role: int) -> int:
    """Gives a member a role. Its status."""
    return session.put(f"{API}/guilds/{guild}/members/{member}/roles/{role}", timeout=60).status_code


with ThreadPoolExecutor(16) as pool:
    members = [(guild, member, 7) for guild in range(4) for member in range(10)]
    print(sorted(pool.map(lambda each: add_role(*each), members)))
