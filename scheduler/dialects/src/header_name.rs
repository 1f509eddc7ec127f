//! What the name of a header says about limits.
//!
//! Most upstreams use similar names: `x-ratelimit-remaining`, `RateLimit-Reset`, `X-Rate-Limit-Limit`,
//! `x-ratelimit-remaining-tokens`, `X-RateLimit-Requests-Reset`, `retry-after-ms`.

use rampmeter_policy::observation::Scope;
use rampmeter_protocol::time::Span;

/// The figure of a bucket that a header states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Capacity,
    Remaining,
    Used,
    /// The fraction of the capacity that is used.
    UsedShare,
    Reset,
    /// A time from now, which is more exact than a moment.
    ResetAfter,
    /// The pause before the next call.
    Pause,
    /// The name of the bucket.
    Name,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HeaderName<'a> {
    pub(crate) told: Told,
    pub(crate) bucket: BucketName<'a>,
    /// The unit of a bare number, if the name states it.
    pub(crate) unit_ms: Option<f64>,
}

/// The bucket that a header describes: `x-` and `tokens` in `x-ratelimit-remaining-tokens`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketName<'a> {
    pub(crate) vendor: &'a str,
    pub(crate) of: &'a str,
    /// Whether the figure comes first, as at OpenAI and its imitators.
    is_last: bool,
}

const MARKS: [&str; 2] = ["ratelimit", "rate-limit"];
const PAUSE: &str = "retry-after";
/// The words for figures. A word that begins or ends as another one comes before it.
const WORDS: [(&str, Told); 13] = [
    ("reset-after", Told::ResetAfter),
    ("reset-in", Told::ResetAfter),
    ("reset-at", Told::Reset),
    ("reset-time", Told::Reset),
    ("resettime", Told::Reset),
    ("reset", Told::Reset),
    ("remaining", Told::Remaining),
    ("limit", Told::Capacity),
    ("max", Told::Capacity),
    ("used", Told::Used),
    ("utilization", Told::UsedShare),
    ("resource", Told::Name),
    ("bucket", Told::Name),
];
const TIMES: [(&str, f64); 5] =
    [("-ms", 1.0), ("-milliseconds", 1.0), ("-seconds", 1e3), ("-minutes", 60e3), ("-nanoseconds", 1e-6)];
const WINDOWS: [(&str, u64); 8] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3600),
    ("day", 86_400),
    ("secondly", 1),
    ("minutely", 60),
    ("hourly", 3600),
    ("daily", 86_400),
];
const UNITS: [(&str, &str); 7] = [
    ("requests", "requests"),
    ("req", "requests"),
    ("tokens", "tokens"),
    ("input-tokens", "input-tokens"),
    ("output-tokens", "output-tokens"),
    ("points", "points"),
    ("complexity", "points"),
];

impl HeaderName<'_> {
    /// Parses the lower-case name of a header; `None` if it is not about limits.
    pub(crate) fn parse(name: &str) -> Option<HeaderName<'_>> {
        let timed = TIMES.iter().find_map(|(suffix, ms)| Some((name.strip_suffix(suffix)?, Some(*ms))));
        let (name, unit_ms) = timed.unwrap_or((name, None));
        if name.ends_with(PAUSE) {
            return Some(HeaderName { told: Told::Pause, bucket: BucketName::default(), unit_ms });
        }
        let (vendor, rest) = MARKS.iter().find_map(|mark| name.split_once(mark))?;
        if rest.is_empty() && !vendor.is_empty() {
            return Some(HeaderName {
                told: Told::Capacity,
                bucket: BucketName { vendor, ..BucketName::default() },
                unit_ms,
            });
        }
        let (told, of, is_last) = figure(rest.strip_prefix('-')?)?;
        Some(HeaderName { told, bucket: BucketName { vendor, of, is_last }, unit_ms })
    }
}

/// The figure at the end of a name, what it describes, and whether that comes last. A window alone,
/// as in `x-hubspot-ratelimit-daily`, is its capacity.
fn figure(name: &str) -> Option<(Told, &str, bool)> {
    let named = WORDS.iter().find_map(|(word, told)| {
        let first = name.strip_prefix(word).and_then(|of| if of.is_empty() { Some(of) } else { of.strip_prefix('-') });
        let last = || name.strip_suffix(word)?.strip_suffix('-');
        first.map(|of| (*told, of, !of.is_empty())).or_else(|| Some((*told, last()?, false)))
    });
    let is_window = WINDOWS.iter().any(|(word, _)| *word == name);
    named.or_else(|| is_window.then_some((Told::Capacity, name, false)))
}

impl BucketName<'_> {
    /// The limit that the bucket belongs to, as far as the name says, and the length of its window.
    pub(crate) fn scope(&self) -> (Scope, Option<Span>) {
        let window =
            WINDOWS.iter().find_map(|(word, secs)| Some((self.of.strip_suffix(word)?, Span::from_secs(*secs))));
        let (of, window) = match window.filter(|(of, _)| of.is_empty() || of.ends_with('-')) {
            Some((of, window)) => (of.trim_end_matches('-'), Some(window)),
            None => (self.of, None),
        };
        let unit = UNITS.iter().find(|(word, _)| *word == of).map(|(_, unit)| Scope::Unit((*unit).to_owned()));
        let unnamed = of.is_empty().then_some(Scope::Unnamed);
        (unit.or(unnamed).unwrap_or_else(|| Scope::Policy(of.to_owned())), window)
    }

    /// Whether the bucket refills all the time, and its reset is when it is full. Upstreams that
    /// count in windows either name none or name them.
    pub(crate) fn is_gradual(&self) -> bool {
        let (scope, window) = self.scope();
        matches!(scope, Scope::Unit(_)) && window.is_none() && (self.is_last || self.is_coarse_vendor())
    }

    /// Whether this is Anthropic, which states tokens in thousands.
    pub(crate) fn is_coarse(&self) -> bool {
        self.is_coarse_vendor() && self.of.ends_with("tokens")
    }

    fn is_coarse_vendor(&self) -> bool {
        self.vendor == "anthropic-"
    }
}
