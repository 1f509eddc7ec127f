//! The waiting requests, and why they wait.

use super::handles::{Handles, shortened};
use super::page_error::PageError;
use super::question::ask;
use crate::front_client::FrontClient;
use rampmeter_protocol::explain::{Explained, Explanation, Question};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_serve::messages::inbound::Endpoint;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long a list is cached for further browsers.
const FRESH_LIST: Span = Span::from_secs(1);
/// Bound on the cached answers: more than people look at in that time.
const MAX_LISTS: usize = 64;

/// A query: about the first requests, or about one by its handle or id.
#[derive(Debug, Default, Deserialize, PartialEq, Eq, Hash)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WaitingQuery {
    request: Option<String>,
    id: Option<String>,
}

/// The last lists, and the handles of their requests. Each lock is held for one look-up.
#[derive(Debug, Default)]
pub(super) struct WaitingLists {
    handles: Mutex<Handles>,
    lists: Mutex<HashMap<(Name, WaitingQuery), (Time, Value)>>,
}

impl WaitingLists {
    pub(super) fn id(&self, handle: &str) -> Result<PermitId, PageError> {
        let gone = || PageError::invalid("this request was listed too long ago: look at the list again");
        self.handles().id(handle).ok_or_else(gone)
    }

    /// Returns the answer of the leader of `name`, or its recent answer to another browser.
    pub(super) async fn list(
        &self,
        front_client: &FrontClient,
        name: Name,
        asked: WaitingQuery,
    ) -> Result<Value, PageError> {
        let (now, question) = (front_client.clock.now(), self.question(&asked)?);
        let key = (name, asked);
        if let Some(known) = self.known(now, &key) {
            return Ok(known);
        }
        let explanation: Explanation = ask(front_client, &key.0, &Endpoint::Explain, &question).await?;
        let list = self.list_json(&explanation);
        self.keep(now, key, list.clone());
        Ok(list)
    }

    fn known(&self, now: Time, key: &(Name, WaitingQuery)) -> Option<Value> {
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.get(key).filter(|(made, _)| now.since(*made) < FRESH_LIST).map(|(_, list)| list.clone())
    }

    fn keep(&self, now: Time, key: (Name, WaitingQuery), list: Value) {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if lists.len() >= MAX_LISTS {
            lists.clear();
        }
        lists.insert(key, (now, list));
    }

    fn question(&self, asked: &WaitingQuery) -> Result<Question, PageError> {
        let by_handle = |handle: &Option<String>| handle.as_deref().map(|handle| self.id(handle)).transpose();
        let written = asked.id.as_deref().map(PermitId::new).transpose();
        let written = written.map_err(|error| PageError::invalid(error.to_string()))?;
        Ok(Question { id: by_handle(&asked.request)?.or(written), ..Question::default() })
    }

    /// Returns the part of an answer for browsers, which know the limits already and may not see ids.
    fn list_json(&self, explanation: &Explanation) -> Value {
        let first: Vec<Value> = explanation.first.iter().map(|request| self.request_json(request)).collect();
        let request = explanation.request.as_ref().map(|request| self.request_json(request));
        json!({"waiting": explanation.waiting, "more": explanation.more, "first": first, "request": request})
    }

    fn request_json(&self, request: &Explained) -> Value {
        let mut json = serde_json::to_value(request).expect("an explanation is plain data");
        json["id"] = json!(shortened(&request.id));
        json["handle"] = json!(self.handles().handle(&request.id));
        json
    }

    fn handles(&self) -> MutexGuard<'_, Handles> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_dropped_before_there_are_too_many() {
        let (lists, hub) = (WaitingLists::default(), Name::new("hub").unwrap());
        let keep = |number: usize| {
            let asked = WaitingQuery { id: Some(number.to_string()), ..WaitingQuery::default() };
            lists.keep(Time::ORIGIN, (hub.clone(), asked), json!(number));
            lists.lists.lock().unwrap().len()
        };
        assert_eq!((1..=MAX_LISTS).map(keep).max(), Some(64));
        assert_eq!(keep(MAX_LISTS + 1), 1);
    }
}
