//! Limits grants to what the store's checkpoints allow.

mod grant_budget;
mod key_budgets;
mod term;

pub(crate) use grant_budget::ImmediateDemand;
pub(crate) use key_budgets::{KeyBudgets, long_charges};
pub(crate) use term::Term;
