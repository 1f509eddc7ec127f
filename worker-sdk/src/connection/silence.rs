//! Log lines about resources whose schedulers do not answer.

use async_nats::connection::State;
use async_nats::{Client, Message, StatusCode};
use futures::StreamExt;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::resources::Resources;
use rampmeter_protocol::suggestion::{closest, quoted};
use rampmeter_protocol::time::Span;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long to collect the schedulers' resources; each answers within milliseconds.
const COLLECT: Duration = Duration::from_millis(300);
const MAX_NAMES: usize = 8;

pub(crate) struct Silence {
    pub(crate) resource: Name,
    pub(crate) lasts: Span,
}

pub(crate) async fn log_silence(silence: Silence, client: Client, subject: String) {
    let led = match client.connection_state() {
        State::Connected => Some(names(&client, subject).await.unwrap_or_default()),
        State::Pending | State::Disconnected => None,
    };
    tracing::warn!(resource = %silence.resource, silence = %silence.lasts, "{}", silence.text(led.as_ref()));
}

/// Returns the resources of all schedulers that answer.
async fn names(client: &Client, subject: String) -> Option<BTreeSet<Name>> {
    let inbox = client.new_inbox();
    let answers = client.subscribe(inbox.clone()).await.ok()?;
    client.publish_with_reply(subject, inbox, "".into()).await.ok()?;
    let is_answer = |message: &Message| std::future::ready(message.status != Some(StatusCode::NO_RESPONDERS));
    let in_time = answers.take_while(is_answer).take_until(tokio::time::sleep(COLLECT));
    let all: Vec<Message> = in_time.collect().await;
    let named = all.iter().filter_map(|answer| Resources::parse(&answer.payload));
    Some(named.flat_map(|named| named.resources).map(|resource| resource.name).collect())
}

impl Silence {
    /// `led` holds the resources that schedulers serve, or nothing without a connection.
    fn text(&self, led: Option<&BTreeSet<Name>>) -> String {
        let Silence { resource, lasts } = self;
        let Some(led) = led else {
            return format!("there is no connection to NATS; no scheduler of `{resource}` has answered for {lasts}");
        };
        if led.is_empty() {
            return format!("no scheduler has answered for {lasts}; is `rampmeter serve` running?");
        }
        if led.contains(resource) {
            return format!("no scheduler of `{resource}` has answered for {lasts}, although one is running");
        }
        match (closest(resource, led.iter().map(|name| &**name)), listed(led)) {
            (Some(meant), led) => {
                format!("no scheduler leads `{resource}`; did you mean `{meant}`? Schedulers lead {led}")
            }
            (None, led) => format!("no scheduler leads `{resource}`; schedulers lead {led}"),
        }
    }
}

fn listed(names: &BTreeSet<Name>) -> String {
    let shown = quoted(names.iter().take(MAX_NAMES).map(|name| &**name));
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reaches `MAX_NAMES`: of ten names eight are listed.
    #[test]
    fn a_silence_names_what_is_led() {
        let many = (0..10).map(|number| format!("r{number}")).collect::<Vec<_>>().join(" ");
        #[rustfmt::skip]
        let table = [
            ("my-apo", "my-api other", "no scheduler leads `my-apo`; did you mean `my-api`? Schedulers lead `my-api`, `other`"),
            ("my-pai", "my-api",       "no scheduler leads `my-pai`; did you mean `my-api`? Schedulers lead `my-api`"),
            ("hup",    "hub",          "no scheduler leads `hup`; did you mean `hub`? Schedulers lead `hub`"),
            ("maps",   "my-api other", "no scheduler leads `maps`; schedulers lead `my-api`, `other`"),
            ("maps",   &many,          "no scheduler leads `maps`; schedulers lead `r0`, `r1`, `r2`, `r3`, `r4`, `r5`, `r6`, `r7` and 2 more"),
            ("maps",   "maps",         "no scheduler of `maps` has answered for 2s, although one is running"),
            ("maps",   "",             "no scheduler has answered for 2s; is `rampmeter serve` running?"),
        ];
        let name = |text: &str| Name::new(text).unwrap();
        let silence = |resource| Silence { resource: name(resource), lasts: Span::from_secs(2) };
        for (resource, led, text) in table {
            let led = led.split_whitespace().map(name).collect();
            assert_eq!(silence(resource).text(Some(&led)), text);
        }
        assert_eq!(
            silence("maps").text(None),
            "there is no connection to NATS; no scheduler of `maps` has answered for 2s"
        );
    }
}
