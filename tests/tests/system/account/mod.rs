//! Limits, tokens and secrets of the account at its provider.

mod access_tokens;
mod provider;
mod provider_limits;
mod secrets;
