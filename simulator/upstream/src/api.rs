//! An upstream without HTTP.

use crate::{
    Account, Arrival, Cost, Policy, PolicyStats, Preset, Rejection,
    account::Refused,
    counter::LimitState,
    invalid_calls::Ban,
    preset::dialect::Header,
    preset::template::{Values, fill},
    refusal::Refusal,
    rule::Sharing,
};
use std::time::Duration;

/// An upstream without HTTP: an [`Account`], with its origin of time, whose responses describe limits by a [`Preset`].
///
/// ```
/// use rampmeter_upstream::{Api, Arrival, Cost, Preset};
/// use std::time::Duration;
///
/// let mut github = Api::new(Preset::named("github")?);
/// let get = |name: &str| (name == "method").then(|| "GET".to_owned());
/// let reply = github.answer(Duration::ZERO, &Arrival { cost: &Cost::new(), label: &get });
/// assert_eq!((reply.status, reply.header("x-ratelimit-remaining")), (200, Some("4999")));
/// # Ok::<(), rampmeter_upstream::PresetError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Api {
    preset: Preset,
    account: Account,
    ban: Option<Ban>,
    since_1970: Duration,
    answers: u64,
}

/// The response to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// All headers about limits, by name in lower case.
    pub headers: Vec<(String, String)>,
    /// The cost of the call.
    pub cost: Cost,
    /// Why the call was rejected; `None` if it was admitted.
    pub rejection: Option<Rejection>,
    /// The wait that a rejection states.
    pub stated_wait: Option<Duration>,
}

impl Reply {
    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Api {
    /// Creates the upstream at the origin of time, the beginning of 1970.
    #[must_use]
    pub fn new(preset: Preset) -> Self {
        let account = Account::of(preset.rules.clone());
        let account = preset.concurrency.into_iter().fold(account, Account::with_concurrency);
        let ban = preset.invalid.clone().map(Ban::new);
        Self { preset, account, ban, since_1970: Duration::ZERO, answers: 0 }
    }

    /// Sets the origin of time to `since_1970` after the beginning of 1970.
    #[must_use]
    pub fn with_origin(self, since_1970: Duration) -> Self {
        Self { account: self.account.with_windows_since(since_1970), since_1970, ..self }
    }

    /// Replaces the policies, as [`Account::change`] does.
    pub fn change(&mut self, now: Duration, policies: Vec<Policy>) {
        self.account.change(now, policies);
    }

    /// Responds to a call at `now`. An admitted call is in flight until [`Self::finish`].
    pub fn answer(&mut self, now: Duration, arrival: &Arrival<'_>) -> Reply {
        let cost = self.preset.cost(arrival);
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        if let Some((refusal, rejection)) = self.ban.as_mut().and_then(|ban| ban.refusal(now_ns)) {
            return self.refused(cost, rejection, refusal, Vec::new());
        }
        let arrival = Arrival { cost: &cost, ..*arrival };
        let decision = self.account.admit_call(now, &arrival);
        self.answers += 1;
        let headers = if self.is_silent() { Vec::new() } else { self.headers(now, &arrival, decision) };
        let reply = match decision {
            Ok(()) => Reply { status: 200, headers, cost: cost.clone(), rejection: None, stated_wait: None },
            Err(refused) => self.refused(cost.clone(), refused.rejection, self.refusal(refused), headers),
        };
        let sharing = decision.err().and_then(|refused| self.sharing(refused));
        self.ban.iter_mut().for_each(|ban| ban.count(reply.status, sharing));
        reply
    }

    /// Notes that an admitted call has ended.
    ///
    /// # Panics
    /// If no admitted call is in flight.
    pub fn finish(&mut self) {
        self.account.finish();
    }

    /// Returns what each policy has spent and could spend at `now`, as [`Account::policies`] does.
    #[must_use]
    pub fn policies(&self, now: Duration) -> Vec<PolicyStats> {
        self.account.policies(now)
    }

    /// Returns the preset that the upstream was created from.
    #[must_use]
    pub fn preset(&self) -> &Preset {
        &self.preset
    }

    fn is_silent(&self) -> bool {
        self.preset.silent_every.is_some_and(|every| self.answers.is_multiple_of(every.get()))
    }

    fn headers(&self, now: Duration, arrival: &Arrival<'_>, decision: Result<(), Refused>) -> Vec<Header> {
        let standings = self.account.standings(now, arrival);
        let dialect = self.preset.dialect;
        let values = Values { now: self.since_1970.saturating_add(now), standing: None, took: None };
        let refused = decision.err().and_then(|refused| refused.rule);
        let refusing = standings.iter().find(|(rule, _)| Some(*rule) == refused).map(|(_, standing)| standing);
        let is_global = refusing.is_some_and(|standing| standing.rule.sharing == Sharing::Global);
        let all: Vec<LimitState<'_>> = standings.iter().map(|(_, standing)| standing.clone()).collect();
        let about_call = match decision {
            Ok(()) => dialect.of_admitted(&Values { took: Some(arrival.cost), ..values }),
            Err(_) => dialect.of_refused(&Values { standing: refusing, ..values }),
        };
        let about_limits = if is_global { Vec::new() } else { dialect.of_limits(&all, &values) };
        let least = all.iter().filter(|standing| standing.is_in_family("")).min_by_key(|standing| standing.level);
        let own = self.preset.headers.iter().filter_map(|(name, template)| {
            Some((name.clone(), fill(template, &Values { standing: least, ..values })?))
        });
        about_call.into_iter().chain(about_limits).chain(own).collect()
    }

    fn refused(&self, cost: Cost, rejection: Rejection, refusal: Refusal, mut headers: Vec<Header>) -> Reply {
        let form = refusal.retry_after.unwrap_or(self.preset.retry_after());
        let stated = refusal.wait(rejection).and_then(|wait| form.of(wait));
        headers.extend(stated.map(|number| ("retry-after".to_owned(), number.to_string())));
        let nanos = stated.zip(form.unit()).map(|(number, unit)| number * unit.as_nanos());
        let stated_wait = nanos.and_then(|nanos| u64::try_from(nanos).ok()).map(Duration::from_nanos);
        Reply { status: refusal.status, headers, cost, rejection: Some(rejection), stated_wait }
    }

    fn refusal(&self, refused: Refused) -> Refusal {
        let own = match refused.rule {
            Some(rule) => self.account.rule(rule).refusal,
            None => self.preset.busy,
        };
        own.unwrap_or(self.preset.refusal)
    }

    fn sharing(&self, refused: Refused) -> Option<Sharing> {
        refused.rule.map(|rule| self.account.rule(rule).sharing)
    }
}
