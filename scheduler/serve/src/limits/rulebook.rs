//! The rules in force, kept up to date.
//!
//! The rules in force are the latest edition in the store that is valid as a whole. An invalid edition
//! is refused and shown; the last valid one stays in force, also after restarts.

use crate::audit::Action;
use crate::denials::Denials;
use async_nats::Client;
use futures::StreamExt;
use rampmeter_config::{ResourceRules, Rules, parse_stored_rules};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::{RefusedRules, RulesStatus};
use rampmeter_store::{Edition, OpenError, RuleStore, RulesRevision};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const AFTER_FAILURE: Duration = Duration::from_millis(250);
/// How often the store is read even without news, in case the watch was lost silently.
const RECHECK: Duration = Duration::from_secs(5);
/// The KV entries with rules, as in NATS permissions.
const VALUES: [&str; 2] = ["rules", "counts"];
/// The name of the rules' text in refusals.
const SOURCE: &str = "rules";

/// The known state of the rules.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Rulebook {
    /// The revision in force. Without one, the configuration's limits are in force.
    pub revision: RulesRevision,
    /// The latest edition, if it is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedRules>,
    /// How many editions were refused.
    pub refusals: u64,
    /// Why the store can't be read, if it can't.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    #[serde(skip)]
    known: bool,
    #[serde(skip)]
    rules: Arc<Rules>,
}

/// Receives changes of the rules.
pub type RulebookReceiver = watch::Receiver<Rulebook>;

impl Rulebook {
    /// Returns whether the store was ever read.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Returns whether there is something to show: rules in force, refused, or unreadable.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.revision.is_none() || self.refused.is_some() || self.trouble.is_some()
    }

    /// Returns the rules of `resource`, if it has some.
    #[must_use]
    pub fn of(&self, resource: &Name) -> Option<&ResourceRules> {
        self.rules.of(resource)
    }

    /// Returns the status of the rules for `resource`, or `None` if there are no rules and never were.
    #[must_use]
    pub fn status(&self, resource: &Name) -> Option<RulesStatus> {
        let own = self.of(resource);
        let applied = own.and_then(|own| own.applied.as_ref());
        (!self.revision.is_none() || self.refused.is_some()).then(|| RulesStatus {
            revision: self.revision.get(),
            counts: own.is_some(),
            by: applied.map(|applied| applied.by.clone()),
            at: applied.map(|applied| applied.at.clone()),
            differ: Vec::new(),
            refused: self.refused.clone(),
        })
    }

    /// Returns the latest edition that was seen, valid or not.
    fn latest(&self) -> RulesRevision {
        self.refused.as_ref().map_or(self.revision, |refused| RulesRevision::new(refused.revision))
    }

    /// Takes editions from the store, the latest first, and puts the first valid one in force.
    fn take(&mut self, editions: &[Edition]) {
        self.known = true;
        self.trouble = None;
        let (valid, refused) = latest_valid(editions, Path::new(SOURCE));
        if let Some((revision, rules)) = valid {
            self.put_in_force(revision, rules);
        }
        self.refuse(refused);
    }

    fn put_in_force(&mut self, revision: RulesRevision, rules: Rules) {
        if self.revision == revision {
            return;
        }
        if revision < self.revision {
            tracing::error!(
                revision = revision.get(),
                known = self.revision.get(),
                "the rules in the store are older than those that were in force"
            );
        }
        let resources: Vec<&str> = rules.resources.iter().map(|rules| &*rules.name).collect();
        let resources = resources.join(", ");
        tracing::info!(
            revision = revision.get(),
            resources,
            "rules are in force in place of the configuration's limits"
        );
        for (rules, applied) in rules.resources.iter().filter_map(|rules| Some((rules, rules.applied.as_ref()?))) {
            let order = format!("revision {} of {}", revision.get(), applied.at);
            let from = &applied.file;
            Action { who: &applied.by, what: "apply", on: &rules.name, from, order: order.as_bytes() }.log();
        }
        self.revision = revision;
        self.rules = Arc::new(rules);
    }

    fn refuse(&mut self, refused: Option<RefusedRules>) {
        if let Some(RefusedRules { revision, reason }) =
            refused.as_ref().filter(|refused| self.refused.as_ref() != Some(refused))
        {
            tracing::error!(
                revision,
                in_force = self.revision.get(),
                reason,
                "rules are refused; the last good ones stay in force"
            );
            self.refusals += 1;
        }
        self.refused = refused;
    }
}

/// Returns the first valid edition, and why the first one is refused if invalid. Faults give `source` as the file.
pub(crate) fn latest_valid(
    editions: &[Edition],
    source: &Path,
) -> (Option<(RulesRevision, Rules)>, Option<RefusedRules>) {
    let mut refused = None;
    for Edition { revision, text } in editions {
        match read(text.as_deref(), source) {
            Ok(rules) => return (Some((*revision, rules)), refused),
            Err(reason) => refused = refused.or(Some(RefusedRules { revision: revision.get(), reason })),
        }
    }
    (None, refused)
}

/// Parses the text of an edition; a deleted one has no rules.
fn read(text: Option<&[u8]>, source: &Path) -> Result<Rules, String> {
    let Some(text) = text else { return Ok(Rules::default()) };
    let text = std::str::from_utf8(text).map_err(|error| format!("no text: {error}"))?;
    parse_stored_rules(source, text).map_err(|error| error.to_string())
}

/// Keeps the result up to date until the last receiver is dropped. It begins unknown.
pub(crate) fn keep(client: Client, denials: Denials, prefix: Name, replicas: usize) -> RulebookReceiver {
    let (book, read) = watch::channel(Rulebook::default());
    tokio::spawn(async move {
        let mut store = None;
        loop {
            let failed = tokio::select! {
                failed = follow(&mut store, (&client, &prefix, replicas), &book) => failed,
                () = book.closed() => return,
            };
            if let Err(error) = failed {
                let reason = format!("the rules can't be read: {}", denials.reason(&VALUES, &error));
                tracing::debug!(reason);
                book.send_modify(|book| book.trouble = Some(reason));
            }
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    });
    read
}

/// Follows the store until its watch ends. A bucket is created at the first start, but not when it is lost later.
async fn follow(
    store: &mut Option<RuleStore>,
    (client, prefix, replicas): (&Client, &Name, usize),
    book: &watch::Sender<Rulebook>,
) -> Result<(), OpenError> {
    let store = match store {
        Some(store) => store,
        None => store.insert(RuleStore::open(client, prefix, replicas).await?),
    };
    let mut watch = store.watch().await?;
    let editions = store.editions().await?;
    book.send_modify(|book| book.take(&editions));
    let revision = book.borrow().revision;
    let mut edition_in_force = editions.into_iter().find(|edition| edition.revision == revision);
    keep_copy_in_force(store, book, &mut edition_in_force).await;
    loop {
        let news = match tokio::time::timeout(RECHECK, watch.next()).await {
            Ok(Some(Ok(entry))) => Some(Edition::from(entry)),
            Ok(Some(Err(_)) | None) => return Ok(()),
            Err(_nothing_new) => store.editions().await?.into_iter().next(),
        };
        let known = book.borrow().latest();
        if let Some(edition) = news.filter(|edition| edition.revision != known) {
            book.send_modify(|book| book.take(std::slice::from_ref(&edition)));
            if edition.revision == book.borrow().revision {
                edition_in_force = Some(edition);
            }
            keep_copy_in_force(store, book, &mut edition_in_force).await;
        }
    }
}

/// Stores the edition in force anew once a later one is refused, lest invalid ones push it out of the history.
async fn keep_copy_in_force(store: &RuleStore, book: &watch::Sender<Rulebook>, edition_in_force: &mut Option<Edition>) {
    let (revision, is_refused) = (book.borrow().revision, book.borrow().refused.is_some());
    if let Some(edition) = edition_in_force.take_if(|edition| is_refused && edition.revision == revision)
        && let Err(error) = store.keep(&edition).await
    {
        tracing::warn!(revision = revision.get(), %error, "no copy of the rules in force could be kept");
        *edition_in_force = Some(edition);
    }
}

#[cfg(test)]
impl Rulebook {
    /// Puts the rules in this text in force at this revision. Without text they were deleted.
    pub(crate) fn of_edition(revision: u64, text: Option<&str>) -> Self {
        let mut book = Rulebook::default();
        let text = text.map(|text| text.as_bytes().to_vec());
        book.take(&[Edition { revision: RulesRevision::new(revision), text }]);
        assert_eq!(book.refused, None);
        book
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edition(revision: u64, capacity: &str) -> Edition {
        let text = format!(
            "[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"few\"\ncapacity = {capacity}\nperiod = \"1s\"\n"
        );
        Edition { revision: RulesRevision::new(revision), text: Some(text.into_bytes()) }
    }

    /// The edition in force, the capacity in it, and what is refused.
    fn seen(book: &Rulebook) -> (u64, Option<f64>, Option<u64>) {
        let api = Name::new("api").unwrap();
        let capacity = book.of(&api).map(|rules| rules.limits[0].capacity.units());
        (book.revision.get(), capacity, book.refused.as_ref().map(|refused| refused.revision))
    }

    #[test]
    fn the_latest_valid_edition_is_in_force() {
        let deleted = Edition { revision: RulesRevision::new(9), text: None };
        #[rustfmt::skip]
        let table = [
            (vec![],                                                      (0, None, None)),
            (vec![edition(4, "4")],                                       (4, Some(4.0), None)),
            (vec![edition(5, "0"), edition(4, "4")],                      (4, Some(4.0), Some(5))),
            (vec![edition(6, "x"), edition(5, "0"), edition(4, "4")],     (4, Some(4.0), Some(6))),
            (vec![edition(6, "6"), edition(5, "0"), edition(4, "4")],     (6, Some(6.0), None)),
            (vec![deleted, edition(4, "4")],                              (9, None, None)),
        ];
        for (editions, expected) in table {
            let mut opened = Rulebook::default();
            opened.take(&editions);
            assert_eq!(seen(&opened), expected, "{editions:?} at the start");
            let mut rulebook = Rulebook::default();
            editions.iter().rev().for_each(|edition| rulebook.take(std::slice::from_ref(edition)));
            assert_eq!(seen(&rulebook), expected, "{editions:?} one by one");
        }
    }

    #[test]
    fn an_edition_that_comes_twice_is_refused_once() {
        let mut book = Rulebook::default();
        book.take(&[edition(1, "1")]);
        book.take(&[edition(2, "0")]);
        book.take(&[edition(2, "0")]);
        assert_eq!(
            (book.refusals, book.refused.as_ref().map(|refused| &*refused.reason)),
            (1, Some("rules:5:12: a capacity is above 0"))
        );
        book.take(&[edition(3, "3")]);
        assert_eq!((book.refusals, seen(&book)), (1, (3, Some(3.0), None)));
    }
}
