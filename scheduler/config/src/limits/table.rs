//! The tables of resources, classes and limits.
//!
//! Unknown keys are errors. A new key is a row of its table, and its type reads its value.

use crate::keys::{keys, words};
use crate::limits::objections::{HeadersTable, ObjectionTable};
use crate::provider::ProviderTable;
use crate::reading::value::Duration;
use rampmeter_policy::spec::{ClassSpec, Discover, Follow, LimitSpec, ResourceSpec, StartPolicy, Uncounted, Unmatched};
use rampmeter_protocol::name::Name;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

keys! {
    /// `[[resource]]`
    ///
    /// An API, the upstream, with its limits.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(crate) struct ResourceTable fills ResourceSpec {
        /// The name in the requests of workers: the subject is rampmeter.permit.NAME.
        pub name: Spanned<String> = Given(r#""sentinel-hub""#),
        /// What happens to requests that no limit applies to: "allow" grants them at once,
        /// "refuse" answers them with `no_limit`.
        pub unmatched: Option<Spanned<Unmatched>> = Default(r#""allow""#) => unmatched,
        /// What happens to requests without a `cost` if no limit counts "requests":
        /// "refuse" answers them with `unknown_unit`, "allow" grants them at once.
        pub uncounted: Option<Spanned<Uncounted>> = Default(r#""refuse""#) => uncounted,
        /// The level of each bucket if the store never knew this resource: "full", "empty" or
        /// "unproven". Unproven buckets are full, and drawn on with care until calls prove it.
        pub start: Option<Spanned<StartPolicy>> = Default(r#""unproven""#) => start,
        /// The headers in which the upstream reports its limits. Without this: "generic", which reads
        /// all known names and notations. "plain" reads Retry-After and nothing else. There are
        pub dialect: Option<Spanned<String>> = Given(r#""sentinel-hub""#),
        /// Which capacities count: "headers" keeps to what the upstream's responses state where that
        /// is less than what is written here, "written" never does.
        pub follow: Option<Spanned<Follow>> = Default(r#""headers""#) => follow,
        /// Whether limits are found that are not written: `true` finds them by headers, a rate by
        /// rejected calls, and a cap on calls in flight. "in-flight" finds that cap alone.
        pub discover: Option<Spanned<DiscoverTable>> = Default("false") => discover,
        /// The label that names a call's route. A limit that responses name, as Discord's do, is for
        /// the routes whose responses name it.
        pub discover_route: Option<Spanned<String>> = Example(r#""route""#),
        /// Labels for whose values the upstream may have buckets of their own.
        #[serde(default)]
        pub discover_key: Vec<Spanned<String>> = Example(r#"["guild", "channel"]"#),
        /// What a number in Retry-After counts: "seconds" or "milliseconds".
        /// Without this: what the dialect says.
        pub retry_after_unit: Option<Spanned<String>> = Example(r#""milliseconds""#),
        /// How the scheduler computes costs of requests that give a `price` in place of a `cost`.
        /// Without this it computes none. There is "sentinel-hub".
        pub pricing: Option<Spanned<String>> = Example(r#""sentinel-hub""#),
        /// The label whose values share each class fairly.
        /// Without this, requests of a class are served first come, first served.
        pub fair_share: Option<Spanned<String>> = Example(r#""client""#),
        /// Clients that get more or less than the usual weight of 1. Needs `fair_share`.
        #[serde(default)]
        pub weights: BTreeMap<String, Spanned<f64>> = Example("{ team-a = 3 }"),
        /// Labels by whose values `rampmeter usage` counts calls and costs apart, at most four.
        /// Without this, by that of `fair_share`.
        #[serde(default)]
        pub usage_by: Vec<Spanned<String>> = Example(r#"["team", "model"]"#),
        /// The class of requests that name none. Without this: the first class.
        pub default_class: Option<Spanned<Name>> = Given(r#""standard""#) => default_class,
        /// The priority classes, the most urgent first. Without this: one class, "default".
        /// Each class has
        #[serde(default)]
        pub classes: Vec<Spanned<ClassTable>> = Given(
            r#"[
  { name = "interactive" },
  { name = "standard", headroom = 0.1 },
  { name = "bulk", headroom = 0.2, max_starvation = "60s" },
]"#
        ),
        /// How far ahead a waiting request is committed to a start: round trip and jitter.
        pub horizon: Option<Spanned<Duration>> = Default(r#""50ms""#) => horizon,
        /// How much is set aside in the store ahead of need, as the time in which limits refill it.
        /// A crash may cost as much.
        pub reservation: Option<Spanned<Duration>> = Default(r#""300ms""#) => reservation,
        /// How long after its start an unused permit lapses.
        pub validity: Option<Spanned<Duration>> = Default(r#""5s""#) => validity,
        /// How far ahead a start may be reserved (mode `reserve`). Without this: as long as the
        /// longest period of a limit, at least a minute and at most an hour.
        pub max_ahead: Option<Spanned<Duration>> = Example(r#""1h""#) => max_ahead,
        /// How many requests wait at once. Beyond it, requests are refused.
        pub max_waiting: Option<Spanned<usize>> = Default("100000") => bounds.max_waiting,
        /// How many permits are remembered at once, at about 100 bytes each.
        pub max_permits: Option<Spanned<usize>> = Default("4000000") => bounds.max_permits,
        /// How many buckets by key exist at once that are not full, at about 160 bytes each.
        /// Beyond it, requests with new keys are refused.
        pub max_keys: Option<Spanned<usize>> = Default("1000000") => bounds.max_keys,
        /// The labels that tell kinds of calls apart. For each of their values the scheduler learns
        /// how far estimated costs are off. Without this, nothing is learned of costs.
        #[serde(default)]
        pub learn_costs: Vec<Spanned<String>> = Example(r#"["route"]"#),
        /// The accounts that serve the requests as a pool. Each has a limit of its own in place of one
        /// with `per = "account"`. An account may say how much it is preferred among those with stock,
        /// and which classes it serves: `{ name = "team-b", weight = 2, classes = ["bulk"] }`.
        #[serde(default)]
        pub accounts: Vec<Spanned<AccountTable>> = Example(r#"["team-a", "team-b"]"#),
        /// Names of headers that the dialect does not know.
        pub headers: Option<Spanned<HeadersTable>> = Table,
        /// Responses that object, or that do not although they look so. The first that fits decides.
        #[serde(default)]
        pub objection: Vec<Spanned<ObjectionTable>> = Table,
        /// The service that tells the limits.
        pub provider: Option<Spanned<ProviderTable>> = Table,
        /// The limits.
        #[serde(default)]
        pub limit: Vec<Spanned<LimitTable>> = Table,
    }
}

/// An account of a pool: its name, or more of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "an account is its name, or a table of `name`, `weight` and `classes`")]
pub(crate) enum AccountTable {
    Name(String),
    Full(FullAccountTable),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FullAccountTable {
    pub name: String,
    pub weight: Option<f64>,
    #[serde(default)]
    pub classes: Vec<String>,
}

/// Which limits are found: `true`, `false` or `"in-flight"`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "limits are found with `true`, `false` or \"in-flight\"")]
pub(crate) enum DiscoverTable {
    All(bool),
    Only(DiscoverWord),
}

words! {
    /// The kinds of limits that `discover` can be restricted to.
    pub(crate) enum DiscoverWord { InFlight }
}

impl From<DiscoverTable> for Discover {
    fn from(written: DiscoverTable) -> Self {
        match written {
            DiscoverTable::All(true) => Discover::All,
            DiscoverTable::All(false) => Discover::Nothing,
            DiscoverTable::Only(DiscoverWord::InFlight) => Discover::InFlight,
        }
    }
}

keys! {
    /// An element of `classes`.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(crate) struct ClassTable fills ClassSpec {
        /// The name in requests.
        pub name: Spanned<String> = Given(r#""bulk""#),
        /// The share of each limit's capacity that the class leaves to more urgent ones. In a
        /// "sliding-window" that is never lent: 0.2 takes a fifth of the rate for good.
        pub headroom: Option<Spanned<f64>> = Default("0.0") => headroom,
        /// How long the class may get nothing of a limit before its oldest request goes first.
        /// Without this, it never does.
        pub max_starvation: Option<Spanned<Duration>> = Example(r#""60s""#) => max_starvation,
    }
}

keys! {
    /// `[[resource.limit]]`
    ///
    /// A limit. Every call has to fit into all limits whose unit it costs.
    /// `rampmeter apply` changes limits while schedulers run.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "a limit")]
    pub(crate) struct LimitTable fills LimitSpec {
        /// The name, unique in the resource: status, metrics and answers use it.
        pub name: Spanned<String> = Given(r#""requests-per-minute""#),
        /// The unit that is counted. Every call costs one of "requests" unless it says otherwise.
        pub unit: Option<Spanned<Name>> = Default(r#""requests""#) => unit,
        /// How the limit counts:
        pub algorithm: Option<Spanned<String>> = Default(r#""token-bucket""#),
        /// What a full bucket or an empty window has room for.
        #[serde(alias = "limit")]
        pub capacity: Spanned<f64> = Given("1000"),
        /// The time in which an empty bucket fills, or the length of a window:
        /// ISO 8601 ("PT1M") or like "60s".
        pub period: Option<Spanned<Duration>> = Given(r#""PT1M""#),
        /// The time for one token, in place of a period. For buckets of tokens.
        pub refill_interval: Option<Spanned<Duration>> = Example(r#""60ms""#),
        /// Units per second, in place of a period. For "leaky-bucket".
        pub drain_velocity: Option<Spanned<f64>> = Example("20"),
        /// When a "fixed-window" begins: "epoch", at multiples of the period since 1970;
        /// "first-use", with the first call after the last window; "day" or "month".
        pub aligned: Option<Spanned<String>> = Default(r#""epoch""#),
        /// The time zone of days and months.
        pub zone: Option<Spanned<String>> = Default(r#""UTC""#),
        /// When a "quota" is reset: "day", "month", "epoch" or "first-use" with a `period`,
        /// or "never". A quota needs it.
        pub resets: Option<Spanned<String>> = Example(r#""month""#),
        /// How long a call may be in flight without being renewed or settled. For "concurrency".
        pub time_to_live: Option<Spanned<Duration>> = Example(r#""60s""#),
        /// The stock that is held back against jitter, in tokens. "auto" is the rate times
        /// `jitter` plus 1, at most a tenth of the capacity.
        pub margin: Option<Spanned<MarginTable>> = Default(r#""auto""#),
        /// By how much the delays of calls differ on their way to the upstream. Starts stay as far
        /// from the ends of windows, and calls count for longer in sliding ones.
        pub jitter: Option<Spanned<Duration>> = Default(r#""50ms""#) => jitter,
        /// Whether the limit follows what the upstream really gives. It may give less because
        /// others use it, or because it refills more slowly than it says.
        pub learn: Option<bool> = Default("true"),
        /// The least part of the rate that the upstream is taken to give.
        pub floor: Option<Spanned<f64>> = Default("0.1"),
        /// The requests that the limit applies to: each label has "this very value", "a prefix*",
        /// "^a regular expression", or one of several values. Without this: all requests.
        #[serde(default)]
        pub r#match: BTreeMap<Spanned<String>, Spanned<PatternTable>> =
            Example(r#"{ route = "/process/*", method = ["PUT", "PATCH"] }"#),
        /// The labels for whose values there is a bucket each, or for several labels together.
        /// Requests without them are not limited by it. Without this: one bucket for all.
        #[serde(default)]
        pub key: Vec<Spanned<String>> = Example(r#"["client"]"#),
        /// "account": each of the resource's `accounts` has this limit for itself, under a name such as
        /// `requests-of-team-a`.
        pub per: Option<Spanned<String>> = Example(r#""account""#),
        /// Only the most specific limit of a group applies to a request: `per-client` for all, and
        /// another one for `match = { client = "vip" }`.
        pub group: Option<Spanned<String>> = Example(r#""clients""#),
        /// Whether the limit is only measured: status and metrics tell which requests
        /// it would hold up, and it holds up none.
        pub shadow: Option<Spanned<bool>> = Default("false") => shadow,
    }
}

/// `"exact"`, `"prefix*"`, `"^regular expression"`, or a list of exact values.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a label is matched with a value, a \"prefix*\", a \"^regular expression\" or a list of values"
)]
pub(crate) enum PatternTable {
    Value(String),
    OneOf(Vec<String>),
}

/// `"auto"` or a number of tokens.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a margin is \"auto\" or a number of tokens")]
pub(crate) enum MarginTable {
    Tokens(f64),
    Word(String),
}
