//! A fire drill: load on a resource while a test breaks things around it, and the verdict at the
//! end.
//!
//! A drill looks at three things, because each shows what the others cannot:
//!
//! * what the **upstream** received. It has the last word, but a busy machine delays calls and so
//!   bunches them. The resource's margin of a second covers that, and would cover a small fault.
//! * what the scheduler **promised** to workers: receipt of the answer and its delay. The limits
//!   are lowered to what the scheduler may use, so the margin hides only [`LATENESS`]. A fault that
//!   recurs adds up, and exceeds it.
//! * what the scheduler **charged**, by a limit that hardly ever refills. A charge below the use
//!   means that something was forgotten, however little and whenever it was.

use crate::api::Api;
use crate::figures::Times;
use crate::fire::Run;
use crate::judge::{Call, Cost, Finding, MICROS, Rule, judge};
use crate::load::{Failures, Load, Plan};
use crate::patience::{until, within};
use crate::witness::{LateAnswers, Witness};
use crate::worker::Worker;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_upstream::{Config, Stats, Upstream};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The period of a resource that allows a hundred requests and two hundred and fifty processing
/// units a second.
pub const QUICK: Duration = Duration::from_secs(2);
/// The period of a resource with the same buckets and a tenth of the rate. A wrong burst is not
/// made good by the pause before it.
pub const SLOW: Duration = Duration::from_secs(20);
const CAPACITIES: [(&str, u64); 2] = [("requests", 200), ("processing-units", 500)];

/// A limit that shows what was charged, because it hardly ever refills.
const CHARGED: &str = r#"
[[resource.limit]]
name = "charged"
capacity = 100000
period = "PT8760H"
margin = 0
"#;

/// By how much the delays of two answers may differ, on a machine that stops a task for that long.
pub const LATENESS: Duration = Duration::from_millis(500);

/// Load on a resource called `hub`, and everything that observes it.
pub struct Drill {
    run: Run,
    clock: Clock,
    plan: Plan,
    upstream: Upstream,
    load: Load,
    witness: Witness,
    warm: (Time, Stats),
    times: BTreeMap<&'static str, Times>,
}

/// The verdict of a drill.
pub struct Report {
    run: Run,
    took: Span,
    made: usize,
    received: Vec<Finding>,
    promised: Vec<Finding>,
    charges: Option<Charges>,
    late: LateAnswers,
    failures: Failures,
    delivered: f64,
    times: BTreeMap<&'static str, Times>,
}

/// The resource of drills. Half of each bucket is margin.
pub fn hub(period: Duration) -> String {
    let limit = |(unit, capacity): (&str, u64)| {
        let (margin, seconds) = (capacity / 2, period.as_secs());
        format!(
            "[[resource.limit]]\nname = \"{unit}\"\nunit = \"{unit}\"\ncapacity = {capacity}\nperiod = \"{seconds}s\"\nmargin = {margin}\n"
        )
    };
    format!("[[resource]]\nname = \"hub\"\n{}", CAPACITIES.map(limit).concat())
}

/// The quick resource with another limit, which shows the charges. It is not for tests that take
/// the state away: such a limit rightly grants nothing for the rest of the year then.
pub fn audited_hub() -> String {
    format!("{}{CHARGED}", hub(QUICK))
}

/// The scheduler's charges, in whole requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charges {
    /// Calls that were made and are not charged any more.
    pub lost: u64,
    /// Charges whose calls were not made.
    pub unused: u64,
}

/// A plan for one and a half times the calls that the quick resource allows, through the server at
/// `nats_url`.
pub fn plan(nats_url: &str) -> Plan {
    Plan {
        nats_url: nats_url.to_owned(),
        workers_url: nats_url.to_owned(),
        prefix: "rampmeter",
        period: QUICK,
        workers: 40,
        offered: 150.0,
        warm: 300,
    }
}

impl Drill {
    /// Starts the load of `plan`, and waits until it is warm. A scheduler has to run already.
    pub async fn begin(run: Run, plan: Plan) -> Self {
        run.tell();
        let clock = Clock::start();
        let seconds = plan.period.as_secs();
        let policies = CAPACITIES.map(|(unit, capacity)| format!("{unit}={capacity}/{seconds}s").parse().unwrap());
        let config = Config { keeps_admissions: true, ..Config::new(policies.into()) };
        let upstream = Upstream::start(config).await.unwrap();
        let witness = Witness::connect(&plan.nats_url, clock).await;
        let load = Load::start(&plan, Api::new(&upstream), clock).await;
        until("the load is there", async || (load.made() >= plan.warm).then_some(())).await;
        let warm = (clock.now(), upstream.stats());
        Drill { run, clock, plan, upstream, load, witness, warm, times: BTreeMap::new() }
    }

    /// The time on the drill's clock.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The listener to all answers.
    pub fn witness(&self) -> &Witness {
        &self.witness
    }

    /// Notes a duration of the kind `what`.
    pub fn note(&mut self, what: &'static str, time: Span) {
        self.times.entry(what).or_default().add(time);
    }

    /// Waits until a successor of `epoch` grants, and notes how long after `since` that was.
    pub async fn note_successor(&mut self, epoch: Epoch, since: Time) {
        let takeover = self.witness.successor(epoch, since).await;
        self.note("successor heard", takeover.heard);
        self.note("successor grants", takeover.granted);
    }

    /// Waits until the load has made `more` further calls.
    pub async fn until_made(&self, more: usize) {
        let before = self.load.made();
        until("calls are made", async || (self.load.made() >= before + more).then_some(())).await;
    }

    /// Lets every worker finish its call, and judges.
    pub async fn end(mut self) -> Report {
        let measured = self.measured();
        within("every worker finishes its call", self.load.finish()).await;
        let charges = self.charges().await;
        self.report(measured, charges)
    }

    /// Stops the workers where they are, and judges. This is for a resource that may rightly grant
    /// nothing more.
    pub async fn break_off(mut self) -> Report {
        let measured = self.measured();
        self.load.break_off().await;
        self.report(measured, None)
    }

    fn measured(&self) -> (Span, f64) {
        let used = self.upstream.stats().utilisation_since(&self.warm.1);
        let best_used = used.iter().filter_map(rampmeter_upstream::Utilisation::ratio).fold(0.0, f64::max);
        (self.clock.now().since(self.warm.0), best_used)
    }

    fn report(self, (took, delivered): (Span, f64), charges: Option<Charges>) -> Report {
        Report {
            took,
            made: self.load.made(),
            received: judge(&self.rules(|rule| rule), self.received()),
            promised: judge(&self.rules(lowered), self.load.promised()),
            charges,
            late: self.witness.late_answers(&self.load.used()),
            failures: self.load.failures(),
            delivered,
            times: self.times,
            run: self.run,
        }
    }

    /// The upstream's limits, changed by `change`.
    fn rules(&self, change: fn(Rule) -> Rule) -> Vec<Rule> {
        let rule = |(unit, capacity)| change(Rule::new(unit, capacity, self.plan.period));
        CAPACITIES.into_iter().map(rule).collect()
    }

    /// The calls that the upstream received. Refused calls count too, since they were made.
    fn received(&self) -> Vec<Call> {
        let admissions = self.upstream.admissions();
        let cost = |cost: &rampmeter_upstream::Cost| -> Cost {
            cost.iter().map(|(unit, amount)| (unit.to_string(), amount.micros())).collect()
        };
        admissions.iter().map(|admission| Call { at: admission.at, cost: cost(&admission.cost) }).collect()
    }

    /// `None` if the resource has no limit that shows the charges.
    async fn charges(&self) -> Option<Charges> {
        let status = Worker::at(&self.plan.nats_url, "hub").await.status_of_leader().await;
        let limit = status.limits.iter().find(|limit| &*limit.name == "charged")?;
        let refilled = limit.capacity / limit.period_ms * self.clock.now().since(Clock::START).millis();
        let (made, at_least) = (self.load.made() as f64, limit.capacity - limit.level);
        let whole = |requests: f64| requests.max(0.0).ceil() as u64;
        Some(Charges { lost: whole(made - at_least - refilled), unused: whole(at_least - made) })
    }
}

/// The part of a rule that the scheduler may use: half is margin. Refill that a full bucket loses
/// while an answer is late counts, too.
fn lowered(rule: Rule) -> Rule {
    let burst = rule.burst / 2 + rule.refill(LATENESS);
    rule.with_burst(burst)
}

impl Report {
    /// Prints everything, and checks the rules that hold under every fault.
    pub fn check(&self) {
        self.print();
        let too_many = |findings: &[Finding]| findings.iter().any(|finding| finding.over_admitted_micros > 0);
        assert!(!too_many(&self.received), "the upstream received too much");
        assert!(!too_many(&self.promised), "too much was promised");
        assert!(self.charges.is_none_or(|charges| charges.lost == 0), "charges are lost");
        assert_eq!(self.late.acted_upon, 0, "late answers were acted upon");
        assert_eq!(self.failures, Failures::default(), "calls failed");
    }

    /// Checks the figures.
    ///
    /// # Errors
    /// All that was measured, if the figures are wrong.
    pub fn shows(&self, figures: impl FnOnce(&Self) -> bool) -> Result<(), String> {
        if figures(self) { Ok(()) } else { Err(self.to_string()) }
    }

    /// The number of calls that were made.
    pub fn made(&self) -> usize {
        self.made
    }

    /// The share of the rate that was delivered.
    pub fn delivered(&self) -> f64 {
        self.delivered
    }

    /// The charges, if the resource shows them.
    pub fn charges(&self) -> Option<Charges> {
        self.charges
    }

    /// The longest duration of the kind `what`.
    pub fn longest(&self, what: &str) -> Span {
        self.times.get(what).map_or(Span::ZERO, Times::longest)
    }

    #[allow(clippy::print_stdout, reason = "a failure, or --nocapture, shows what was measured")]
    fn print(&self) {
        println!("{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} calls, {:.1} s", self.run.test(), self.made, self.took.secs())?;
        for (who, findings) in [("received", &self.received), ("promised", &self.promised)] {
            for finding in findings {
                writeln!(f, "  {who}: {finding}")?;
            }
        }
        match self.charges {
            Some(Charges { lost, unused }) => writeln!(f, "  charges: {lost} lost, {unused} unused")?,
            None => writeln!(f, "  charges: not looked at")?,
        }
        for (what, times) in &self.times {
            writeln!(f, "  {what}: {times}")?;
        }
        let LateAnswers { seen, acted_upon } = self.late;
        let Failures { throttled, failed } = &self.failures;
        writeln!(f, "  delivered: {:.1} % of the rate", 100.0 * self.delivered)?;
        writeln!(f, "  late answers: {seen}, acted upon {acted_upon}")?;
        writeln!(f, "  429s: {throttled}, failed calls: {}", failed.len())?;
        failed.iter().take(5).try_for_each(|failure| writeln!(f, "    {failure}"))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = |micros: u64| micros as f64 / MICROS as f64;
        let (too_many, left) = (tokens(self.over_admitted_micros), tokens(self.least_left_micros));
        write!(f, "{} over-admitted {too_many}, least left {left}, at {:.3?}", self.unit, self.worst_at)
    }
}
