export { withPermits, type FetchOptions } from "./fetch.js";
export { Permit, type Outcome } from "./permit.js";
export { Resource, type Ask, type ResourceOptions } from "./resource.js";
export type { Unreachable } from "./schedulers.js";
export { PermitError, type Cost } from "./wire.js";
