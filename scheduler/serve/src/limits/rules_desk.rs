//! Lets operators without rights in the store read and write rules, through a scheduler.
//!
//! Operators get no rights in the store because a user of JetStream's API can have stored bytes
//! delivered to any subject of its account, for example as the state of a resource.

use crate::limits::present_rules::{PresentRules, write};
use crate::messages::inbound::answer_to;
use anyhow::{Context, bail};
use async_nats::{Client, Message};
use bytes::Bytes;
use futures::StreamExt;
use rampmeter_config::{Rules, parse_stored_rules};
use rampmeter_protocol::subject::Subjects;
use rampmeter_store::{RuleStore, RulesRevision};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// The longest wait for a scheduler. NATS does not answer users that may not ask.
const ANSWER: Duration = Duration::from_secs(5);
/// The longest wait for the first answer, after which the bucket is tried.
const FIRST_ANSWER: Duration = Duration::from_secs(1);
/// Bound on the characters of an error in an answer, so that the server accepts it.
const MAX_ERROR: usize = 4096;
/// The queue group of schedulers, so that only one answers.
const GROUP: &str = "rules";
/// The name of the rules in faults.
const SOURCE: &str = "rules";

/// The first line of a message with rules. The rest is their text, which is empty if there are none.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    /// The revision of the latest edition, or in an order the one to be replaced.
    revision: RulesRevision,
    /// Why the latest edition is invalid, if it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    refused: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Written(RulesRevision),
    Error(String),
}

/// Reads and writes rules through a scheduler if one answers, else in the bucket.
#[derive(Debug)]
pub struct RulesDesk {
    client: Client,
    subjects: Subjects,
    is_scheduler: bool,
}

impl RulesDesk {
    /// Opens the desk, and reads the present rules.
    ///
    /// # Errors
    /// If a scheduler or the store can't read them.
    pub async fn open(client: &Client, subjects: &Subjects) -> anyhow::Result<(Self, PresentRules)> {
        let answer = client.request(subjects.rules("read"), Bytes::new());
        let answer = tokio::time::timeout(FIRST_ANSWER, answer).await.ok().and_then(Result::ok);
        let desk = |is_scheduler| RulesDesk { client: client.clone(), subjects: subjects.clone(), is_scheduler };
        match answer {
            Some(answer) => Ok((desk(true), present(&answer.payload)?)),
            None => Ok((desk(false), read(client, subjects).await?)),
        }
    }

    /// Writes `after` if nothing was written since `present`, and returns the new revision.
    ///
    /// # Errors
    /// If another edition was written meanwhile, or this one is refused.
    pub async fn write(&self, present: &PresentRules, after: &Rules) -> anyhow::Result<RulesRevision> {
        if !self.is_scheduler {
            let store = RuleStore::open_beside_state(&self.client, self.subjects.prefix()).await?;
            return write(&store, present, after).await;
        }
        let order = message(&Head { revision: present.revision, refused: None }, after);
        let answer = self.client.request(self.subjects.rules("write"), order.into());
        let answer = tokio::time::timeout(ANSWER, answer).await.context("no scheduler has answered; look again")??;
        match serde_json::from_slice(&answer.payload)? {
            Outcome::Written(revision) => Ok(revision),
            Outcome::Error(error) => bail!(error),
        }
    }
}

/// Serves reads and writes of rules until the connection is closed. Fails if it is closed already.
pub(crate) async fn serve(client: Client, subjects: Subjects) -> anyhow::Result<impl Future<Output = ()>> {
    let mut questions = client.queue_subscribe(subjects.rules("*"), GROUP.to_owned()).await?;
    Ok(async move {
        while let Some(question) = questions.next().await {
            let Message { subject, reply, payload, .. } = question;
            let Some(to) = reply.and_then(|reply| answer_to(&subjects, &subject, reply)) else { continue };
            let answer = match () {
                () if *subject == subjects.rules("read") => {
                    read(&client, &subjects).await.map(|present| text_of(&present))
                }
                () if *subject == subjects.rules("write") => take(&client, &subjects, &payload).await,
                () => continue,
            };
            let answer = answer.unwrap_or_else(|error| json(&Outcome::Error(shortened(&format!("{error:#}")))));
            client.publish(to, answer.into()).await.ok();
        }
    })
}

async fn read(client: &Client, subjects: &Subjects) -> anyhow::Result<PresentRules> {
    match RuleStore::existing(client, subjects.prefix()).await? {
        Some(store) => PresentRules::read(&store).await,
        None => Ok(PresentRules::default()),
    }
}

async fn take(client: &Client, subjects: &Subjects, order: &[u8]) -> anyhow::Result<Vec<u8>> {
    let (Head { revision, .. }, after) = parts(order)?;
    let present = PresentRules { revision, ..PresentRules::default() };
    let store = RuleStore::open_beside_state(client, subjects.prefix()).await?;
    Ok(json(&Outcome::Written(write(&store, &present, &after).await?)))
}

fn text_of(PresentRules { revision, rules, refused, .. }: &PresentRules) -> Vec<u8> {
    message(&Head { revision: *revision, refused: refused.as_deref().map(shortened) }, rules)
}

fn present(answer: &[u8]) -> anyhow::Result<PresentRules> {
    if let Ok(Outcome::Error(error)) = serde_json::from_slice(answer) {
        bail!(error);
    }
    let (Head { revision, refused }, rules) = parts(answer)?;
    Ok(PresentRules { revision, refused, rules, ..PresentRules::default() })
}

fn rules(text: &str) -> anyhow::Result<Rules> {
    match text.is_empty() {
        true => Ok(Rules::default()),
        false => Ok(parse_stored_rules(Path::new(SOURCE), text)?),
    }
}

fn message(head: &Head, rules: &Rules) -> Vec<u8> {
    let text = if rules.resources.is_empty() { String::new() } else { rules.text() };
    [&json(head)[..], b"\n", text.as_bytes()].concat()
}

fn parts(message: &[u8]) -> anyhow::Result<(Head, Rules)> {
    let text = std::str::from_utf8(message).context("no text")?;
    let (head, text) = text.split_once('\n').context("no line with the revision")?;
    Ok((serde_json::from_str(head).context("the line with the revision")?, rules(text)?))
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data")
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_ERROR).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reaches `rules_desk::MAX_ERROR`.
    #[test]
    fn what_is_read_is_what_was_written_and_faults_are_bounded() {
        let text = "[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 4\nperiod = \"1s\"\n";
        let long = "é".repeat(MAX_ERROR + 1);
        for (text, refused) in [(text, None), ("", None), (text, Some(long))] {
            let revision = RulesRevision::new(7);
            let written = PresentRules { revision, rules: rules(text).unwrap(), refused, ..PresentRules::default() };
            let read = present(&text_of(&written)).unwrap();
            assert_eq!((read.revision, read.rules.text()), (revision, written.rules.text()));
            let expected = written.refused.map(|refused| refused.chars().count() - 1);
            assert_eq!(read.refused.map(|refused| refused.chars().count()), expected);
        }
        let error = present(&json(&Outcome::Error("the store is away".to_owned()))).unwrap_err();
        assert_eq!(error.to_string(), "the store is away");
    }
}
