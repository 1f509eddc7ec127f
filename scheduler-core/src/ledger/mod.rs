//! Several limits at once: what a request takes of each, and a start that suits all.

mod all_buckets;
pub mod bill;
mod bills;
mod keys;
mod listing;

pub(crate) use all_buckets::{Backlog, Ledger, Offer};
pub(crate) use bill::{Bill, KeyCharge, KeyName};
pub(crate) use bills::Bills;
pub(crate) use keys::{KeyBucket, Keys};
pub(crate) use listing::{HALF, MANY_IN_USE, MOST_AT_STOP, MOST_FAR, MOST_ON_PAGE, ROOM, fitting, keep_first};
