//! Observes leaders, once for all browsers.

use super::merge_patch::difference;
use super::picture::{self, Reading};
use super::question::ask;
use super::recent_levels::{LevelCurve, RecentLevels};
use crate::front_client::FrontClient;
use bytes::Bytes;
use futures::future::join_all;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::shares::Shares;
use rampmeter_protocol::status::{Status, StatusQuery};
use rampmeter_protocol::time::Time;
use rampmeter_serve::health::{Health, ServingState};
use rampmeter_serve::messages::inbound::Endpoint;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// How often browsers get changes.
const TICK: Duration = Duration::from_secs(1);
/// A led resource is sampled once in this many ticks, even without a browser, so that its curve has a past.
const TICKS_TO_SAMPLE: u64 = 5;
/// The shares of a resource are requested once in this many ticks, since they are sums over minutes.
const TICKS_TO_SHARES: u64 = 5;

/// A frame of a stream: the whole picture for a new browser, and the change since the last frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Frame {
    pub(super) number: u64,
    pub(super) whole: Bytes,
    pub(super) change: Bytes,
}

/// The pictures for browsers. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Feed {
    overview: watch::Sender<Frame>,
    resources: Arc<BTreeMap<Name, Observed>>,
}

#[derive(Debug, Default)]
struct Observed {
    frames: watch::Sender<Frame>,
    /// Locked for one copy.
    recent: Mutex<RecentLevels>,
}

/// The shares by resource; `None` if the leader is of an earlier version.
type KnownShares = BTreeMap<Name, Option<Shares>>;

#[derive(Debug, Default)]
struct LastPictures {
    overview: Value,
    resources: BTreeMap<Name, Value>,
    shares: KnownShares,
}

impl Feed {
    /// Starts to observe the resources of `front_client` until the process ends.
    pub(super) fn start(front_client: FrontClient, health: Arc<Health>) -> Self {
        let resources = front_client.resources().map(|name| (name.clone(), Observed::default())).collect();
        let feed = Feed { overview: watch::Sender::default(), resources: Arc::new(resources) };
        tokio::spawn(feed.clone().observe(front_client, health));
        feed
    }

    /// Returns the frames of the overview, with a line for each resource.
    pub(super) fn overview(&self) -> watch::Receiver<Frame> {
        self.overview.subscribe()
    }

    pub(super) fn resource(&self, name: &Name) -> Option<watch::Receiver<Frame>> {
        self.resources.get(name).map(|observed| observed.frames.subscribe())
    }

    pub(super) fn curve(&self, now: Time, name: &Name, limit: &str) -> Option<LevelCurve> {
        let observed = self.resources.get(name)?;
        Some(observed.recent.lock().unwrap_or_else(PoisonError::into_inner).curve(now, limit))
    }

    async fn observe(self, front_client: FrontClient, health: Arc<Health>) {
        let (mut ticks, mut last) = (tokio::time::interval(TICK), LastPictures::default());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        for number in 0_u64.. {
            ticks.tick().await;
            let is_sample = number % TICKS_TO_SAMPLE == 0;
            let asked = self.resources.keys().filter(|name| self.is_wanted(name, is_sample, &front_client));
            let readings = join_all(asked.map(async |name| (name, read(&front_client, name).await))).await;
            if is_sample {
                self.note(&front_client, &readings);
            }
            self.ask_shares(&front_client, &mut last.shares, number % TICKS_TO_SHARES == 1).await;
            self.show(&mut last, &health.duties(), &readings);
        }
    }

    /// Requests the shares of displayed resources: of all if `is_due`, otherwise of newly displayed ones.
    async fn ask_shares(&self, front_client: &FrontClient, known: &mut KnownShares, is_due: bool) {
        known.retain(|name, _| !is_due && self.is_shown(name));
        let shown = self.resources.keys().filter(|name| self.is_shown(name) && !known.contains_key(*name));
        let current = join_all(shown.map(async |name| (name.clone(), shares(front_client, name).await))).await;
        known.extend(current);
    }

    fn is_wanted(&self, name: &Name, is_sample: bool, front_client: &FrontClient) -> bool {
        self.is_shown(name) || self.overview.receiver_count() > 0 || is_sample && front_client.leads(name)
    }

    fn is_shown(&self, name: &Name) -> bool {
        self.resources.get(name).is_some_and(|observed| observed.frames.receiver_count() > 0)
    }

    fn note(&self, front_client: &FrontClient, readings: &[(&Name, Result<Reading, String>)]) {
        let now = front_client.clock.now();
        for (name, reading) in readings {
            if let (Some(observed), Ok(reading)) = (self.resources.get(*name), reading) {
                observed.recent.lock().unwrap_or_else(PoisonError::into_inner).note(now, &reading.status);
            }
        }
    }

    /// Sends each picture to the browsers that display it.
    fn show(
        &self,
        last: &mut LastPictures,
        duties: &BTreeMap<Name, ServingState>,
        readings: &[(&Name, Result<Reading, String>)],
    ) {
        let duty = |name: &Name| duties.get(name).unwrap_or(&ServingState::Starting);
        for (name, reading) in readings {
            if let Some(observed) = self.resources.get(*name).filter(|observed| observed.frames.receiver_count() > 0) {
                let known = last.resources.entry((*name).clone()).or_default();
                send(
                    &observed.frames,
                    known,
                    picture::whole(reading, last.shares.get(*name).and_then(Option::as_ref), duty(name)),
                );
            }
        }
        if self.overview.receiver_count() > 0 {
            let lines = readings.iter().map(|(name, reading)| (name.to_string(), picture::line(reading, duty(name))));
            let lines: Map<String, Value> = lines.collect();
            send(&self.overview, &mut last.overview, json!({"resources": lines}));
        }
    }
}

fn send(frames: &watch::Sender<Frame>, last: &mut Value, picture: Value) {
    let Some(change) = difference(last, &picture) else { return };
    let number = frames.borrow().number + 1;
    frames.send_replace(Frame { number, whole: event("whole", &picture), change: event("change", &change) });
    *last = picture;
}

/// Formats an event of a stream. JSON has no line breaks.
fn event(name: &str, data: &Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

/// Requests the shares of a resource. `None` if its leader is of an earlier version.
async fn shares(front_client: &FrontClient, name: &Name) -> Option<Shares> {
    let question = StatusQuery { shares: true, ..StatusQuery::default() };
    let status: Status = ask(front_client, name, &Endpoint::Status, &question).await.ok()?;
    status.shares
}

async fn read(front_client: &FrontClient, name: &Name) -> Result<Reading, String> {
    if let Some(report) = front_client.report(name).await {
        return Ok(Reading { status: report.status, tally: Some(report.tally) });
    }
    let status = ask(front_client, name, &Endpoint::Status, &StatusQuery::default()).await;
    Ok(Reading { status: status.map_err(|error| error.to_string())?, tally: None })
}
