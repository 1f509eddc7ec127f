"""Roles for the members of many Discord guilds: each guild has limits of its own.

`rampmeter init discord` writes these limits: they are for the label `route`, with `key = ["guild"]`.
A call of one guild that waits delays no other guild.
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


def labels_of(request: requests.PreparedRequest) -> dict[str, str]:
    """What the limits of a call depend on."""
    return {"route": "roles", "guild": str(request.url).split("/guilds/")[1].split("/")[0]}


session.mount(API, rampmeter.requests.PermitAdapter(hub, labels=labels_of))


def add_role(guild: int, member: int, role: int) -> int:
    """Gives a member a role. Its status."""
    return session.put(f"{API}/guilds/{guild}/members/{member}/roles/{role}", timeout=60).status_code


with ThreadPoolExecutor(16) as pool:
    members = [(guild, member, 7) for guild in range(4) for member in range(10)]
    print(sorted(pool.map(lambda each: add_role(*each), members)))
