//! Several limits at once: what a request takes of each, and a start that suits all.

mod all_buckets;
mod backlog;
mod bills;
mod far_debts;
pub mod key_pages;
mod key_prices;
mod keys;
mod offer;
mod shadow_limits;
pub mod use_meter;

pub(crate) use all_buckets::Ledger;
pub(crate) use backlog::Backlog;
pub(crate) use bills::Bills;
pub(crate) use key_pages::Page;
pub(crate) use keys::KeyBucket;
pub(crate) use offer::Offer;
pub(crate) use shadow_limits::ShadowLimits;
pub(crate) use use_meter::UseMeter;
