export { withPermits, type FetchOptions } from "./fetch.js";
export { Permit, type Outcome } from "./permit.js";
export { Resource, type Ask, type ResourceOptions, type Unreachable } from "./resource.js";
export { PermitError, type Cost, type Price } from "./wire.js";
