//! Operations that a NATS server denies. It reports them only as events: denied requests time out unanswered.

use async_nats::{Event, ServerError};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::{Span, Time};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long a denial explains failures: longer than any store operation waits for its answer.
const RECENT: Span = Span::from_secs(5);
/// The most denials that are remembered: far more than one operation causes.
const MOST: usize = 32;
/// The beginning of the server's message.
const VIOLATION: &str = "permissions violation";

/// The latest denials on one connection. The lock is held for one read or change of the list.
#[derive(Clone, Debug)]
pub struct Denials {
    clock: Clock,
    latest: Arc<Mutex<VecDeque<(Time, String)>>>,
}

impl Default for Denials {
    fn default() -> Self {
        Denials { clock: Clock::start(), latest: Arc::default() }
    }
}

impl Denials {
    /// Remembers the event if it is a denial.
    pub(crate) fn note(&self, event: &Event) {
        if let Event::ServerError(ServerError::Other(text)) = event
            && text.to_lowercase().starts_with(VIOLATION)
        {
            let mut latest = self.lock();
            latest.truncate(MOST - 1);
            latest.push_front((self.clock.now(), text.clone()));
        }
    }

    /// Explains why an operation on one of these names failed: by a recent denial if there is one, else by `error`.
    #[must_use]
    pub fn reason(&self, names: &[&str], error: &impl ToString) -> String {
        let now = self.clock.now();
        let latest = self.lock();
        let mut recent = latest.iter().filter(|(at, _)| now.since(*at) <= RECENT);
        match recent.find(|(_, text)| concerns(text, names)) {
            Some((_, text)) => format!("the NATS server does not permit it: {text}{}", remedy(text)),
            None => error.to_string(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Time, String)>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what to do about a denied inbox, at which no request is ever answered.
fn remedy(text: &str) -> &'static str {
    match text.to_lowercase().contains("subscription to \"_inbox") {
        true => {
            "; name the inboxes of this user with `inbox_prefix` in [nats], --inbox-prefix or RAMPMETER_INBOX_PREFIX"
        }
        false => "",
    }
}

/// Returns whether a denial concerns one of these names, and not another value in the store.
fn concerns(text: &str, names: &[&str]) -> bool {
    let value = text.split_once("$KV.").map(|(_, value)| value);
    value.is_none_or(|value| value.split(['.', '"']).any(|token| names.contains(&token)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(denials: &Denials, text: &str) {
        denials.note(&Event::ServerError(ServerError::Other(text.to_owned())));
    }

    #[test]
    fn a_denial_explains_later_failures() {
        let denials = Denials::default();
        denied(&denials, "Stale Connection");
        assert_eq!(denials.reason(&["hub"], &"too late"), "too late");
        let text = "Permissions Violation for Publish to \"$KV.rampmeter.state.hub\"";
        denied(&denials, text);
        assert_eq!(denials.reason(&["hub"], &"too late"), format!("the NATS server does not permit it: {text}"));
        assert_eq!(denials.reason(&["api"], &"too late"), "too late", "of another resource");
        let inbox = "Permissions Violation for Subscription to \"_INBOX.a.*\"";
        denied(&denials, inbox);
        let said = denials.reason(&["api"], &"too late");
        assert!(said.contains(&format!("{inbox}; name the inboxes of this user")), "no request is answered: {said}");
    }

    #[test]
    fn denials_are_forgotten_by_number_and_age() {
        let denials = Denials::default();
        (0..100).for_each(|number| denied(&denials, &format!("Permissions Violation for Publish to \"a.{number}\"")));
        assert_eq!(denials.lock().len(), MOST);
        assert!(denials.reason(&[], &"").ends_with("\"a.99\""));
        denials.lock().iter_mut().for_each(|(at, _)| *at = *at - RECENT - Span::from_millis(1));
        assert_eq!(denials.reason(&[], &"too late"), "too late");
    }
}
