//! Jobs, and their form in the stream.

use crate::QueueError;
use crate::lane::Lane;
use crate::store::unique;
use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use bytes::Bytes;
use rampmeter_protocol::bounds::MAX_ID;
use rampmeter_protocol::cost as wire;
use rampmeter_protocol::labels::Labels;
use rampmeter_worker_sdk::Cost;
use std::collections::BTreeMap;

const COST: &str = "Rampmeter-Cost";
const LABELS: &str = "Rampmeter-Labels";
/// Bound on the bytes of a payload. The job must fit into a message with its headers, and into a dead
/// letter with the reason.
const MAX_PAYLOAD: usize = 256 << 10;

/// Delayed work for a group.
///
/// ```
/// use rampmeter_jobs::Job;
/// let job = Job::new("guild-17", "give user 4711 the role").class("bulk").id("grant-4711").cost(1).label("method", "PUT");
/// ```
#[derive(Clone, Debug)]
#[must_use = "a job is done once it is published"]
pub struct Job {
    group: String,
    class: Option<String>,
    id: Option<String>,
    cost: Cost,
    labels: Vec<(String, String)>,
    payload: Bytes,
}

/// A job that is in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The job's sequence in the stream, as needed by [`Queue::delete`](crate::Queue::delete).
    pub sequence: u64,
    /// Whether the job was already in the stream under the same id.
    pub duplicate: bool,
}

/// A job as it is written to the stream.
pub(crate) struct Written {
    pub(crate) lane: Lane,
    pub(crate) id: String,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Bytes,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobTerms {
    pub(crate) id: Option<String>,
    pub(crate) cost: wire::Cost<'static>,
    pub(crate) labels: Labels<'static>,
}

impl Job {
    /// Creates a job of `group`, 1 to 256 bytes, that costs one request. The payload is for the handler.
    pub fn new(group: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        let (group, payload) = (group.into(), payload.into());
        Job { group, class: None, id: None, cost: Cost::default(), labels: Vec::new(), payload }
    }

    /// Sets the class of the permit and the lane; by default, the permit's is that of the resource.
    ///
    /// Only jobs of one group and class keep their order, so a more urgent job overtakes others of its group.
    pub fn class(self, class: impl Into<String>) -> Self {
        Job { class: Some(class.into()), ..self }
    }

    /// Sets the id, 1 to 64 visible ASCII characters. Jobs with the same id are one job. Without an id, a job
    /// gets one when it is published.
    pub fn id(self, id: impl Into<String>) -> Self {
        Job { id: Some(id.into()), ..self }
    }

    /// Sets the cost of the call.
    pub fn cost(self, cost: impl Into<Cost>) -> Self {
        Job { cost: cost.into(), ..self }
    }

    /// Adds a label to the permit, besides that of the group.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((key.into(), value.into()));
        self
    }

    pub(crate) fn written(self) -> Result<Written, QueueError> {
        let lane = Lane::new(self.class.as_deref(), &self.group)?;
        let id = self.id.map_or_else(|| Ok(unique()), checked_id)?;
        let cost = self.cost.into_wire().map_err(QueueError::invalid)?;
        let mut labels = Labels::new();
        for (key, value) in self.labels {
            let set = labels.set(key.clone(), value);
            set.map_err(|error| QueueError::invalid(format!("label {key:?}: {error}")))?;
        }
        if self.payload.len() > MAX_PAYLOAD {
            return Err(QueueError::invalid(format!("the payload of a job has at most {MAX_PAYLOAD} bytes")));
        }
        let headers = JobTerms { id: None, cost, labels }.headers();
        Ok(Written { lane, id, headers, payload: self.payload })
    }
}

fn checked_id(id: String) -> Result<String, QueueError> {
    let fits = (1..=MAX_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Ok(id) } else { Err(QueueError::invalid(format!("id {id:?}: 1 to {MAX_ID} visible ASCII characters"))) }
}

impl JobTerms {
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !self.cost.is_empty() {
            headers.insert(COST, text(&self.cost));
        }
        if !self.labels.is_empty() {
            headers.insert(LABELS, text(&self.labels));
        }
        headers
    }

    /// Parses a job's headers, or returns why they are invalid. A job without headers costs one request.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self, String> {
        let id = headers.get(NATS_MESSAGE_ID).map(|id| id.as_str().to_owned());
        let cost = read(headers, COST, |json| serde_json::from_str(json).map(wire::Cost::into_owned))?;
        let texts: BTreeMap<String, String> = read(headers, LABELS, |json| serde_json::from_str(json))?;
        let mut labels = Labels::new();
        for (key, value) in texts {
            labels.set(key, value).map_err(|error| format!("header {LABELS}: {error}"))?;
        }
        Ok(JobTerms { id, cost, labels })
    }
}

fn text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers have a JSON form")
}

fn read<T: Default>(
    headers: &HeaderMap,
    name: &str,
    parse: impl FnOnce(&str) -> serde_json::Result<T>,
) -> Result<T, String> {
    let Some(value) = headers.get(name) else { return Ok(T::default()) };
    parse(value.as_str()).map_err(|error| format!("header {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_what_a_job_costs() {
        let job = Job::new("a", "").cost(Cost::requests(1).and("tokens", 2.5)).label("route", "/x");
        let headers = job.written().unwrap().headers;
        assert_eq!(headers.get(COST).unwrap().as_str(), r#"{"requests":1,"tokens":2.5}"#);
        assert_eq!(headers.get(LABELS).unwrap().as_str(), r#"{"route":"/x"}"#);
        let terms = JobTerms::read(&headers).unwrap();
        assert_eq!(terms.labels.get("route"), Some("/x"));
        assert_eq!(terms.headers().get(COST), headers.get(COST));
    }

    #[test]
    fn a_plain_message_is_a_job_of_one_request() {
        let terms = JobTerms::read(&HeaderMap::new()).unwrap();
        assert_eq!(terms, JobTerms { id: None, cost: wire::Cost::new(), labels: Labels::new() });
    }

    #[test]
    fn headers_that_cannot_be_understood_are_named() {
        let mut headers = HeaderMap::new();
        headers.insert(COST, "cheap");
        assert!(JobTerms::read(&headers).unwrap_err().starts_with("header Rampmeter-Cost: "));
    }

    #[test]
    fn what_no_permit_could_be_asked_for_is_refused() {
        #[rustfmt::skip]
        let table = [
            (Job::new("", ""),                      "a group is 1 to 256 bytes"),
            (Job::new("a", "").class("a b"),        "a name is 1 to 64 characters"),
            (Job::new("a", "").id("a b"),           "visible ASCII characters"),
            (Job::new("a", "").id(""),              "visible ASCII characters"),
            (Job::new("a", "").cost(Cost::requests(-1)), "from 0 to 1e9"),
            (Job::new("a", "").label("", "x"),      "label \"\""),
            (Job::new("a", vec![0; MAX_PAYLOAD + 1]), "at most 262144 bytes"),
        ];
        for (job, why) in table {
            let error = job.written().err().expect(why);
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
