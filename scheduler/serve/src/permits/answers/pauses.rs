//! The responses that began the present pauses, and the pauses they asked for.

use crate::wall_time;
use rampmeter_protocol::log_throttle::LogThrottle;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::reason::PauseCause;
use rampmeter_protocol::status::LimitStatus;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::command::PauseNote;
use std::collections::BTreeMap;

/// The call whose response is being handled.
#[derive(Clone, Debug)]
pub(crate) struct AnsweredCall {
    pub(crate) status: u16,
    pub(crate) class: Option<Name>,
    /// The client of the fair share, or else the NATS user.
    pub(crate) client: Option<String>,
}

/// The last pause of each limit.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    told: BTreeMap<Name, Told>,
    log: LogThrottle<Name>,
}

#[derive(Debug)]
struct Told {
    key: Option<String>,
    until: Time,
    sentence: String,
    /// The longest pause that the upstream has ever asked for.
    longest: Span,
}

impl Pauses {
    /// Notes a pause of `limit`. Logs the first one, one a minute, and each that is a tenth longer than any before.
    pub(crate) fn note(&mut self, now: Time, resource: &Name, limit: Name, pause: &PauseNote, call: &AnsweredCall) {
        let (sentence, asked) = (sentence(pause, call), pause.asked.unwrap_or_default());
        let longest = self.told.get(&limit).map(|told| told.longest).unwrap_or_default();
        let left_out = self.log.admit(now, limit.clone());
        if left_out.is_some() || asked.nanos() / 11 > longest.nanos() / 10 {
            let AnsweredCall { status, class, client } = call;
            let (class, client, asked_s) = (class.as_deref(), client.as_deref(), pause.asked.map(seconds));
            tracing::warn!(%resource, %limit, class, client, status, asked_s, left_out, "{sentence}; `rampmeter thaw` ends it");
        }
        let (key, until) = (pause.bucket.1.as_deref().map(str::to_owned), now + pause.span);
        match self.told.get_mut(&limit).filter(|former| former.key == key && former.until > until) {
            Some(former) => former.longest = longest.max(asked),
            None => drop(self.told.insert(limit, Told { key, until, sentence, longest: longest.max(asked) })),
        }
    }

    pub(crate) fn describe(&self, limits: &mut [LimitStatus]) {
        for limit in limits.iter_mut().filter(|limit| is_of_the_upstream(limit.paused_by)) {
            let told = self.told.get(&limit.name).filter(|told| told.key == limit.key);
            limit.pause = told.map(|told| told.sentence.clone());
        }
    }
}

fn is_of_the_upstream(cause: Option<PauseCause>) -> bool {
    matches!(cause, Some(PauseCause::Upstream | PauseCause::Quota))
}

/// Returns the sentence shown by `status`, the page, `explain` and the log.
fn sentence(pause: &PauseNote, call: &AnsweredCall) -> String {
    let client = call.client.as_ref().map(|client| format!("client `{}`", client.escape_debug()));
    let limit = (!pause.is_certain).then(|| "limit unknown".to_owned());
    let by: Vec<String> = client.into_iter().chain(limit).collect();
    let by = if by.is_empty() { String::new() } else { format!(" ({})", by.join(", ")) };
    let paused = match seconds(pause.span) {
        60.0 => "a minute".to_owned(),
        secs => format!("{secs} s"),
    };
    let at = wall_time::now().strftime("%H:%M:%S UTC");
    let (asked, end) = match pause.asked {
        None => (format!("answered {}", call.status), format!("paused for {paused}, as it names no time")),
        Some(asked) if asked > pause.span => {
            (format!("asked for {} s", seconds(asked)), format!("paused for {paused} on one client's word"))
        }
        Some(asked) => (format!("asked for {} s", seconds(asked)), "paused for that long".to_owned()),
    };
    format!("the upstream {asked} at {at}{by}: {end}, then one probe")
}

/// Converts to seconds, in tenths.
fn seconds(span: Span) -> f64 {
    (span.millis() / 100.0).round() / 10.0
}
