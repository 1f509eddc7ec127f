import { watched } from "./body.js";
import { withPermits, type CallAsk, type Input, type Target } from "./fetch.js";
import type { Ask } from "./resource.js";
import { estimate, labelsOf, Meter, Prompts, requestOf, type Tokens } from "./tokens.js";
import type { Amounts } from "./wire.js";

/** The options of `withPermits` for language models, whose costs and `model` labels come from the calls. */
export type ModelOptions = Target & Omit<Ask, "cost" | "price" | "signal">;

/**
 * Makes a `fetch` for openai-node and for what speaks like it. A call costs one request, and in `unit` its input
 * and the most that it may answer. The usage in the answer settles it, that of a stream at its end.
 */
export const openai = ({ unit = "tokens", ...options }: ModelOptions & { readonly unit?: string }): Permitted =>
  permitted(options, (read, answered) => ({ requests: 1, [unit]: read + answered }));

/** What `openai` is, for the package of Anthropic, whose units are `input-tokens` and `output-tokens`. */
export const anthropic = (options: ModelOptions): Permitted =>
  permitted(options, (read, answered) => ({ requests: 1, "input-tokens": read, "output-tokens": answered }));

type Permitted = ReturnType<typeof withPermits>;

/** `costing` makes the units of a cost from the tokens that a call reads and answers. */
function permitted(options: ModelOptions, costing: (read: number, answered: number) => Amounts): Permitted {
  const prompts = new Prompts();
  const asking = async (input: Input, init?: RequestInit): Promise<CallAsk> => {
    const request = await requestOf(input, init);
    const [read, most] = estimate(request);
    const tokens: Tokens = [Math.max(0, read - prompts.kept(request)), most];
    const finish: CallAsk["finish"] = (permit, outcome, response) => {
      const meter = new Meter(...tokens);
      const end = (isWhole: boolean): void => {
        permit.settle({ ...outcome, cost: costing(...meter.used(isWhole)) });
        if (meter.kept > 0) prompts.note(request, meter.kept);
      };
      if (outcome.status === 200) return watched(response, end, (part) => meter.feed(part));
      permit.settle(outcome);
      return response;
    };
    return { cost: costing(...tokens), labels: { ...labelsOf(request), ...options.labels }, finish };
  };
  return withPermits({ ...options, asking });
}
