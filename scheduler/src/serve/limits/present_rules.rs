//! The rules in the store, as a command that changes them reads them.

use crate::config::{Applied, Rules, parse_stored_rules};
use crate::store::{RuleStore, RulesRevision, StoreError};
use anyhow::{Context, bail};
use rampmeter_protocol::clock::unix_ms;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::Path;

/// The name of the stored rules in messages.
const STORED: &str = "rules in the store";
/// The comment above the stored text.
const HEAD: &str = "# Written by `rampmeter apply`: limits in place of the configuration's.\n\n";

/// The rules in the store.
#[derive(Debug)]
pub struct PresentRules {
    /// The revision of the latest edition, valid or not.
    pub revision: RulesRevision,
    /// The rules of the latest valid edition.
    pub rules: Rules,
    /// The limits in force now, for resources whose leaders were asked.
    pub in_force: Rules,
    /// Why the latest edition is invalid, if it is.
    pub refused: Option<String>,
}

impl PresentRules {
    /// No rules.
    #[must_use]
    pub fn none() -> Self {
        PresentRules {
            revision: RulesRevision::NONE,
            rules: Rules::default(),
            in_force: Rules::default(),
            refused: None,
        }
    }

    /// Reads the rules in the store.
    ///
    /// # Errors
    /// If the store does not tell them.
    pub async fn read(store: &RuleStore) -> anyhow::Result<Self> {
        let editions = store.editions().await?;
        let mut present = PresentRules::none();
        for (index, edition) in editions.iter().enumerate() {
            if index == 0 {
                present.revision = edition.revision;
            }
            let Some(text) = &edition.text else { break };
            match parse_stored_rules(Path::new(STORED), &String::from_utf8_lossy(text)) {
                Ok(rules) => {
                    present.rules = rules;
                    break;
                }
                Err(error) => {
                    present.refused.get_or_insert(error.to_string());
                }
            }
        }
        Ok(present)
    }
}

/// Writes `after` if the store still has the present revision, and returns the new one.
///
/// # Errors
/// If another edition was written meanwhile, or the store does not take this one.
pub async fn write(store: &RuleStore, present: &PresentRules, after: &Rules) -> anyhow::Result<RulesRevision> {
    let written = match after.resources.is_empty() {
        true => store.delete(present.revision).await,
        false => store.write(&format!("{HEAD}{}", after.text()), present.revision).await,
    };
    match written {
        Err(StoreError::Superseded) => {
            bail!("the rules were changed meanwhile; nothing was written; look at the difference again")
        }
        written => written.context("the rules could not be written"),
    }
}

/// `rules` with a note on their author, the time, and the `text` they come from.
///
/// # Panics
/// Never: a string takes any text.
#[must_use]
pub fn written_by(mut rules: Rules, author: &str, file: &str, text: &str) -> Rules {
    let sha256 = Sha256::digest(text).iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("a string takes everything");
        digits
    });
    let now = i64::try_from(unix_ms() / 1000).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    let at = now.map_or_else(String::new, |now| now.to_string());
    let applied = Applied { by: author.to_owned(), at, file: file.to_owned(), sha256 };
    rules.resources.iter_mut().for_each(|rules| rules.applied = Some(applied.clone()));
    rules
}
