export { withPermits, type CallAsk, type FetchOptions, type Target } from "./fetch.js";
export { Permit, type Outcome } from "./permit.js";
export { Resource, type Ask, type ResourceOptions, type Unreachable, type Way } from "./resource.js";
export { PermitError, type Amounts, type Cost, type HeadersLike, type Left, type Price } from "./wire.js";
