//! Finds the faults of one resource from the status of its leader.

use super::finding::Symptom;
use crate::commands::output::human::{amount, count, duration, escaped};
use rampmeter_config::{Configured, ResourceRules};
use rampmeter_policy::spec::LimitSpec;
use rampmeter_protocol::reason::PauseCause;
use rampmeter_protocol::recent::Recent;
use rampmeter_protocol::status::{ClassStatus, DifferingScheduler, LimitStatus, ProviderState, Status};
use rampmeter_protocol::usage::DayUsage;

/// The calls of a day after which each unit should have cost something.
const CALLS_OF_ALL_KINDS: i64 = 20;
/// A larger error of a clock cuts windows at noticeably wrong times.
const CLOCK_OFF_MS: f64 = 1_000.0;
/// The fewest rejections that are no accident, and the part of calls from which they do harm: one in this many.
const FEWEST_REJECTIONS: u64 = 3;
const REJECTED_PART: u64 = 100;
/// A cause counts if it has at least one in this many of the rejections.
const CAUSE_PART: u64 = 5;
/// Below this part of the rate, a limit is wrong, not merely used by somebody else now and then.
const LOW_RATE: f64 = 0.8;
/// Shorter pauses end before anybody reads about them.
const LONG_PAUSE_MS: f64 = 10_000.0;
/// The fewest refusals that are no accident, and the part of requests that is too much: one in this many.
const FEWEST_REFUSALS: u64 = 5;
const REFUSED_PART: u64 = 20;
/// A class starves if it has waited this long and got less than one permit in this many.
const STARVING_MS: f64 = 10_000.0;
const STARVING_PART: u64 = 100;
/// The fewest lost answers that are no accident, and the part of permits: one in this many.
const FEWEST_LOST: u64 = 5;
const LOST_PART: u64 = 20;
/// Faults by which calls go uncounted, and faults of too high limits, which are seen from rates.
const UNCOUNTED: [&str; 2] = ["unit-without-cost", "label-missing"];
const TOO_HIGH: [&str; 3] = ["limit-above-stated", "limit-too-high", "rejected-limit-too-high"];
const OF_RATES: [&str; 8] = [
    "limit-too-high",
    "rate-below-written",
    "margin-too-small",
    "rejected-limit-too-high",
    "rejected-burst",
    "rejected-strangers",
    "rejected-ours",
    "rejected-unknown",
];
/// Fewer late checkpoints are no fault.
const MANY_STORE_LOSSES: u64 = 5;

/// The externally visible state of a resource.
pub(super) struct Patient<'a> {
    pub(super) status: Status,
    /// The use of today.
    pub(super) usage: Option<DayUsage>,
    pub(super) in_force: Option<ResourceRules>,
    /// The resource in the local file.
    pub(super) written: Option<&'a Configured>,
    /// Whether NATS belongs to one scheduler, which no other one could outlive.
    pub(super) is_private: bool,
}

/// A fault, what it concerns, and the evidence. Without evidence there is no fault.
type Seen = (&'static str, String, Option<String>);

pub(super) fn symptoms(patient: &Patient<'_>) -> Vec<Symptom> {
    let status = &patient.status;
    let recent = status.recent.clone().unwrap_or_default();
    let limits = status.limits.iter().flat_map(|limit| of_limit(patient, limit, &recent));
    let classes = status.classes.iter().map(|class| ("class-starves", class.name.to_string(), starving(status, class)));
    let differs = |other: &DifferingScheduler| Some(format!("they differ in {other}"));
    let others = status.differing.iter().map(|other| ("schedulers-differ", other.scheduler.clone(), differs(other)));
    let seen = limits.chain(classes).chain(others).chain(of_all(patient, &recent));
    let seen = seen.filter_map(|(fault, it, evidence)| Some((fault.to_owned(), it, evidence?)));
    let rejections = rejections(&recent).map(|(fault, evidence)| (fault, String::new(), evidence));
    let resource = Some(status.resource.clone());
    let symptom = |(fault, it, evidence)| Symptom { fault, resource: resource.clone(), it, evidence };
    without_consequences(seen.chain(rejections).map(symptom).collect())
}

/// Leaves out faults that follow from others. Where a unit costs nothing, rejections say nothing about rates.
/// Where the cause of some rejections is known, those of unknown cause are left out until it is mended.
fn without_consequences(mut symptoms: Vec<Symptom>) -> Vec<Symptom> {
    let are_any = |faults: &[&str]| symptoms.iter().any(|symptom| faults.contains(&&*symptom.fault));
    let (is_uncounted, is_known) = (are_any(&UNCOUNTED), are_any(&TOO_HIGH));
    symptoms.retain(|Symptom { fault, .. }| {
        !(is_uncounted && OF_RATES.contains(&&**fault) || is_known && fault == "rejected-unknown")
    });
    symptoms
}

fn of_all(patient: &Patient<'_>, recent: &Recent) -> Vec<Seen> {
    let Patient { status, is_private, .. } = patient;
    let (over, ahead) = (duration(recent.over_ms), recent.clock_ahead_ms);
    let way = if ahead > 0.0 { "ahead" } else { "behind" };
    let clock = (ahead.abs() >= CLOCK_OFF_MS).then(|| format!("it is {} {way}", duration(ahead.abs())));
    let grown =
        |number: u64, least, what: &str| (number >= least).then(|| format!("{} {what} in {over}", count(number)));
    let is_alone = status.standbys == Some(0) && !is_private;
    let alone = is_alone.then(|| format!("if {} dies, calls wait until it is back", status.leader));
    let refused = status.rules.as_ref().and_then(|rules| rules.refused.as_ref());
    let refused = refused.map(|refused| format!("revision {}: {}", refused.revision, refused.reason));
    let provider = status.provider.as_ref().filter(|provider| provider.state == ProviderState::Failing);
    let provider =
        provider.map(|provider| provider.reason.clone().unwrap_or_else(|| "the reason is unknown".to_owned()));
    let header = status.unreadable.as_ref();
    let header = header.map(|read| format!("`{}: {}`", escaped(&read.header), escaped(&read.value)));
    let (full, many) = refusals(recent);
    let seen = [
        ("queue-full", full),
        ("store-slow", grown(recent.store_losses, MANY_STORE_LOSSES, "checkpoints were late")),
        ("messages-lost", grown(recent.lost_messages, 1, "messages were lost")),
        ("answers-lost", grown(recent.undelivered, FEWEST_LOST.max(recent.granted / LOST_PART), "answers were lost")),
        ("foreign-replies", grown(recent.foreign_replies, 1, "messages were dropped")),
        ("refusals", many),
        ("no-standby", alone),
        ("rules-refused", refused),
        ("file-differs", file_differs(patient)),
        ("provider-fails", provider),
        ("header-unreadable", header),
    ];
    let seen = seen.into_iter().map(|(fault, evidence)| (fault, String::new(), evidence));
    seen.chain([("clock-differs", status.leader.clone(), clock)]).collect()
}

fn of_limit(patient: &Patient<'_>, limit: &LimitStatus, recent: &Recent) -> Vec<Seen> {
    let (level, capacity) = (amount(limit.level), amount(limit.capacity));
    let paused = |by, least| {
        let whose = limit.pause.as_ref().map_or_else(String::new, |pause| format!(": {pause}"));
        (limit.paused_by == Some(by) && limit.frozen_ms >= least)
            .then(|| format!("for {} more{whose}", duration(limit.frozen_ms)))
    };
    let is_spent = limit.paused_by == Some(PauseCause::Quota) || limit.algorithm == "quota" && limit.level <= 0.0;
    let spent =
        is_spent.then(|| format!("{level} of {capacity} are left; it is free in {}", duration(limit.next_free_ms)));
    let unused = is_unused(patient, limit)
        .then(|| format!("none of today's calls has cost `{}`; {level} of {capacity} are left", limit.unit));
    let told = |(name, note): &&(_, String)| *name == limit.name && patient.status.notes.contains(note);
    let uncosted = patient.written.and_then(|written| written.uncosted.iter().find(told));
    let unused = unused.or_else(|| uncosted.map(|(_, note)| note.clone()));
    let labels = limit.missing_labels.join("`, `");
    let unlabelled = (!labels.is_empty()).then(|| format!("no request has carried the label `{labels}`"));
    let states = limit.reported.and_then(|report| report.capacity.or(report.states));
    let stated = |is_wrong: fn(&f64, &f64) -> bool| {
        states
            .filter(|states| is_wrong(states, &limit.capacity))
            .map(|states| format!("its answers state {}, and the limit says {capacity}", amount(states)))
    };
    let allows = limit.reported.and_then(|report| report.allows);
    let allows =
        allows.map(|allows| format!("it seems to allow about {}, and the limit says {capacity}", amount(allows)));
    let slow = limit.learned.filter(|learned| learned.rate < LOW_RATE);
    let slow = slow.map(|learned| format!("{:.0} % of the rate are served", 100.0 * learned.rate));
    let bursts = limit.learned.filter(|learned| learned.rate >= LOW_RATE && learned.held_back > 0.0);
    let bursts = bursts.map(|learned| {
        format!("{} are held back since then, beside the margin of {}", amount(learned.held_back), amount(limit.margin))
    });
    let shadow = limit.shadow.filter(|shadow| shadow.calls > 0).map(|shadow| {
        let (waits, refused) = (count(shadow.would_wait), count(shadow.would_refuse));
        format!("of {} calls, {waits} would wait and {refused} be refused", count(shadow.calls))
    });
    let enforced = [
        ("paused-by-operator", paused(PauseCause::Operator, 0.0)),
        ("quota-spent", spent),
        ("unit-without-cost", unused),
        ("label-missing", unlabelled),
        ("limit-above-stated", stated(|states, written| states < written)),
        ("limit-too-high", allows),
        ("limit-below-stated", stated(|states, written| states > written)),
        ("rate-below-written", slow),
        ("margin-too-small", bursts),
        ("paused-by-upstream", paused(PauseCause::Upstream, LONG_PAUSE_MS)),
        ("calls-unsettled", unsettled(limit, recent)),
    ];
    let enforced = enforced.into_iter().filter(|_| limit.shadow.is_none());
    enforced
        .chain([("limit-in-shadow", shadow)])
        .map(|(fault, evidence)| (fault, limit.name.to_string(), evidence))
        .collect()
}

/// Returns whether none of many calls has cost the limit's unit, although the limit is for all calls.
fn is_unused(Patient { usage, in_force, .. }: &Patient<'_>, limit: &LimitStatus) -> bool {
    let (Some(usage), Some(in_force)) = (usage, in_force) else { return false };
    let named = |table: &&toml::Table| table.get("name").and_then(toml::Value::as_str) == Some(&*limit.name);
    let is_for_all = in_force.written.iter().find(named).is_some_and(|table| !table.contains_key("match"));
    let calls: i64 = usage.clients.iter().map(|client| client.calls).sum();
    let used = usage.clients.iter().any(|client| client.units.contains_key(&limit.unit));
    is_for_all && limit.found.is_none() && calls >= CALLS_OF_ALL_KINDS && !used
}

/// Detects more calls without a settle than a limit of calls in flight has places.
fn unsettled(limit: &LimitStatus, recent: &Recent) -> Option<String> {
    let open = recent.granted.saturating_sub(recent.settled + recent.returned);
    let places = limit.capacity * limit.keys.max(1) as f64;
    let (unsettled, all, over) = (count(open), count(recent.granted), duration(recent.over_ms));
    (limit.algorithm == "concurrency" && open as f64 > places)
        .then(|| format!("{unsettled} of {all} calls in {over} were not, more than the {} places", amount(places)))
}

/// Detects a class that waits while others are served.
fn starving(status: &Status, class: &ClassStatus) -> Option<String> {
    let shares = status.shares.as_ref()?;
    let all: u64 = shares.classes.iter().map(|share| share.granted).sum();
    let own = shares.classes.iter().find(|share| share.name == *class.name)?.granted;
    let waits = format!("{} wait, the oldest for {}", count(class.queued), duration(class.oldest_ms));
    (class.queued > 0 && class.oldest_ms >= STARVING_MS && own * STARVING_PART < all)
        .then(|| format!("{waits}; it got {} of {} permits in {}", count(own), count(all), duration(shares.over_ms)))
}

/// Returns the faults by which calls are rejected, if too many are.
fn rejections(recent: &Recent) -> impl Iterator<Item = (String, String)> {
    let all: u64 = recent.rejections.values().sum();
    let too_many = all >= FEWEST_REJECTIONS && all * REJECTED_PART > recent.granted;
    let causes = recent.rejections.iter().filter(move |(_, number)| too_many && **number * CAUSE_PART >= all);
    causes.map(move |(cause, number)| {
        let (calls, over) = (count(recent.granted), duration(recent.over_ms));
        (format!("rejected-{cause}"), format!("{} of {calls} calls in {over} were rejected for this", count(*number)))
    })
}

/// Detects refusals for lack of room, or else many of other kinds.
fn refusals(recent: &Recent) -> (Option<String>, Option<String>) {
    let all: u64 = recent.refusals.values().sum();
    let Some((code, most)) = recent.refusals.iter().max_by_key(|(_, number)| **number) else { return (None, None) };
    let evidence = format!(
        "{} requests in {} were refused, {} of them as `{code}`",
        count(all),
        duration(recent.over_ms),
        count(*most)
    );
    let is_full = recent.refusals.contains_key("queue_full");
    let are_many = all >= FEWEST_REFUSALS && all * REFUSED_PART > all + recent.granted;
    (is_full.then(|| evidence.clone()), (!is_full && are_many).then_some(evidence))
}

/// Detects limits of the local file that are not in force, unless a provider may correct them.
fn file_differs(Patient { in_force, written, .. }: &Patient<'_>) -> Option<String> {
    let (in_force, written) = (in_force.as_ref()?, written.filter(|written| written.provider.is_none())?);
    let differs = written.spec.limits.iter().filter_map(|limit| {
        let of =
            |limit: &LimitSpec| format!("{} per {}", amount(limit.capacity.units()), duration(limit.period.millis()));
        match in_force.limits.iter().find(|other| other.name == limit.name) {
            None => Some(format!("`{}` does not count", limit.name)),
            Some(other) if (other.capacity, other.period) == (limit.capacity, limit.period) => None,
            Some(other) => Some(format!("`{}` is {} in the file, and {} counts", limit.name, of(limit), of(other))),
        }
    });
    Some(differs.collect::<Vec<_>>().join("; ")).filter(|differs| !differs.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_from_another_fault_is_left_out() {
        let symptom = |fault: &&str| Symptom {
            fault: (*fault).to_owned(),
            resource: None,
            it: String::new(),
            evidence: String::new(),
        };
        let table: [(&[&str], &[&str]); 4] = [
            (
                &["label-missing", "rejected-quota", "rejected-upstream"],
                &["label-missing", "rejected-quota", "rejected-upstream"],
            ),
            (&["limit-too-high", "rejected-unknown"], &["limit-too-high"]),
            (&["rejected-strangers", "rejected-unknown"], &["rejected-strangers", "rejected-unknown"]),
            (
                &["unit-without-cost", "limit-too-high", "rejected-strangers", "no-standby"],
                &["unit-without-cost", "no-standby"],
            ),
        ];
        for (seen, left) in table {
            let found = without_consequences(seen.iter().map(symptom).collect());
            assert_eq!(found.iter().map(|symptom| &*symptom.fault).collect::<Vec<_>>(), left);
        }
    }
}
