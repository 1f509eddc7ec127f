import { Host, type Said } from "./host.js";
import { PermitError, type Answer } from "./wire.js";

/** Causes of a failure before the request reached any process. */
const UNSENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];

/** The answers to a request, or why there are none. A scheduler may have granted what `wasSent`. */
export type Reply = { readonly answers: readonly Answer[]; readonly unheard?: string; readonly wasSent?: boolean };

/** The HTTP front of a scheduler, or of several: the first host is asked, until it fails. */
export class Front {
  readonly #headers: [string, string][] = [["content-type", "application/json"]];

  constructor(private readonly hosts: Host[], token: string | undefined) {
    if (token !== undefined) this.#headers.push(["authorization", `Bearer ${token}`]);
  }

  /** Posts `body` until `signal` ends or the host is gone. Throws if asking again is useless. */
  async post(path: string, body: string, signal?: AbortSignal): Promise<Reply> {
    const host = this.hosts[0] as Host;
    try {
      const init = { method: "POST", headers: this.#headers, body, redirect: "manual" } as const;
      const said = await host.ask(`/v1/${path}`, init, signal);
      return read(said.text) ?? strange(host.url, said);
    } catch (error) {
      if (error instanceof PermitError) throw error;
      if (this.hosts[0] === host) this.hosts.push(...this.hosts.splice(0, 1)); // The next scheduler may be there.
      const cause = String((error as { cause?: { code?: unknown } }).cause?.code ?? error);
      return { answers: [], unheard: `${host.url}: ${cause}`, wasSent: !UNSENT.includes(cause) };
    }
  }
}

/** The answers in a text, if it has any. */
function read(text: string): Reply | undefined {
  try {
    const answers = [JSON.parse(text) as Answer].flat();
    return answers.every((answer) => typeof answer?.status === "string") ? { answers } : undefined;
  } catch {
    return undefined;
  }
}

/** What is no answer of a scheduler is a mistake, or of a proxy whose scheduler may come back. */
function strange(url: string, { status, text }: Said): Reply {
  const said = `${url} answered ${status}: ${text.trim().slice(0, 200) || "nothing"}`;
  if (Number(status) >= 500 || status === 408 || status === 429) return { answers: [], unheard: said, wasSent: true };
  if (status === 401) throw new PermitError("wrong_token", `${said}; set \`token\` to one that the scheduler knows`);
  const advice = "set `url` to the address of a scheduler, `listen` in its [http]";
  throw new PermitError("not_rampmeter", `${said}; ${advice}`);
}
