//! Sentences on why requests wait.

use super::human::{amount, duration, escaped, in_duration};
use rampmeter_protocol::reason::{Holder, PauseCause, Reason};
use rampmeter_protocol::status::LimitStatus;

/// The name of the algorithm whose headroom never refills.
const SLIDING_WINDOW: &str = "sliding-window";

pub(in crate::commands) struct About<'a> {
    /// What it takes from the limit, if known.
    pub(in crate::commands) takes: Option<f64>,
    pub(in crate::commands) class: Option<&'a str>,
}

/// Explains why a request waits, with the limit and the state of its bucket.
pub(in crate::commands) fn sentence(reason: Reason, limit: &LimitStatus, holder: &Holder, about: &About<'_>) -> String {
    let name = name(limit, holder);
    let has = format!("{name} has {} of {} left", amount(holder.level), amount(limit.capacity));
    let takes = about.takes.map_or("a request takes 1".to_owned(), |takes| format!("this takes {}", amount(takes)));
    let enough = match holder.pays_in_ms {
        Some(_) if holder.likely_free_ms.is_some() => next_place(holder),
        Some(millis) => format!("enough in {}", duration(millis)),
        None => "there will never be enough".to_owned(),
    };
    match reason {
        Reason::Stock => match holder.held_back {
            Some(others) => {
                format!("{has}, of which {} are held back for others, and {takes}: {enough}", amount(others))
            }
            None => format!("{has}, and {takes}: {enough}"),
        },
        Reason::Headroom => {
            let class = about.class.map_or("its class".to_owned(), |class| format!("class `{class}`"));
            let leaves = holder.leaves.unwrap_or_default();
            let lost = if limit.algorithm == SLIDING_WINDOW {
                format!("; in a sliding window that is {} % less for good", amount(100.0 * leaves / limit.capacity))
            } else {
                String::new()
            };
            format!("{has}; {class} must leave {}, and {takes}: {enough}{lost}", amount(leaves))
        }
        Reason::InFlight => {
            let free = format!("{} of {} places of {name}", amount(holder.level.max(0.0)), amount(limit.capacity));
            format!("{free} are free, the others have calls in flight: {}", next_place(holder))
        }
        Reason::QuotaSpent => match holder.pays_in_ms {
            Some(millis) => format!("the quota {name} is spent: it is reset in {}", duration(millis)),
            None => format!("the quota {name} is spent, and is never reset"),
        },
        Reason::Frozen => {
            let pause = holder.frozen_ms.unwrap_or(holder.next_free_ms);
            let by = if limit.paused_by == Some(PauseCause::Operator) { "an operator" } else { "the upstream" };
            let because = limit.pause.as_ref().map(|pause| format!("; {pause}")).unwrap_or_default();
            format!("{by} demanded a pause of {name}: calls go on {}{because}", in_duration(pause))
        }
        Reason::Probe => format!("the pause of {name} is over: one call tries it, and the others wait for its answer"),
        Reason::Share => format!("its client has had its share of {name}: later requests of other clients go first"),
        Reason::Turn => format!("{name} has enough for it: requests ahead of it go first"),
        Reason::Unproven => format!("{name} may hold less at the upstream than here: a few calls try it first"),
        Reason::Store => "the scheduler waits for the store, or for NATS".to_owned(),
        Reason::Other => format!("held by {name}: {has}"),
    }
}

/// Returns the limit, with the key if its buckets are those of keys.
fn name(limit: &LimitStatus, holder: &Holder) -> String {
    match &holder.key {
        Some(key) => format!("`{}` of `{}`", limit.name, escaped(key)),
        None => format!("`{}`", limit.name),
    }
}

fn next_place(holder: &Holder) -> String {
    let last = holder.pays_in_ms.map(|millis| format!("at the latest {}", in_duration(millis)));
    let likely = holder.likely_free_ms.map(|millis| match millis {
        0.0 => "the next is due".to_owned(),
        millis => format!("the next is likely free {}", in_duration(millis)),
    });
    likely.into_iter().chain(last).collect::<Vec<_>>().join(", ")
}

/// Returns the reason in a word or two, for a table.
pub(in crate::commands) fn word(reason: Reason) -> &'static str {
    match reason {
        Reason::Stock => "stock",
        Reason::Headroom => "headroom",
        Reason::InFlight => "in flight",
        Reason::QuotaSpent => "quota spent",
        Reason::Frozen => "pause",
        Reason::Probe => "probe call",
        Reason::Share => "share",
        Reason::Turn => "turn",
        Reason::Unproven => "unproven",
        Reason::Store => "store",
        Reason::Other => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit() -> LimitStatus {
        let json = r#"{"name": "few", "unit": "requests", "algorithm": "token-bucket", "capacity": 100.0, "period_ms": 1e3,
                       "margin": 0.0, "level": 90.92, "next_free_ms": 0.0, "keys": 1, "frozen_ms": 0.0}"#;
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn each_reason_names_its_cause_and_its_end() {
        let holder = Holder {
            key: None,
            level: 90.92,
            next_free_ms: 0.0,
            leaves: Some(90.0),
            held_back: None,
            pays_in_ms: Some(3_080.0),
            frozen_ms: Some(5_000.0),
            likely_free_ms: None,
        };
        let about = About { takes: Some(4.0), class: Some("bulk") };
        #[rustfmt::skip]
        let table = [
            (Reason::Stock, "`few` has 90.92 of 100 left, and this takes 4: enough in 3.1 s"),
            (Reason::Headroom, "`few` has 90.92 of 100 left; class `bulk` must leave 90, and this takes 4: enough in 3.1 s"),
            (Reason::InFlight, "90.92 of 100 places of `few` are free, the others have calls in flight: at the latest in 3.1 s"),
            (Reason::QuotaSpent, "the quota `few` is spent: it is reset in 3.1 s"),
            (Reason::Frozen, "the upstream demanded a pause of `few`: calls go on in 5 s"),
            (Reason::Probe, "the pause of `few` is over: one call tries it, and the others wait for its answer"),
            (Reason::Share, "its client has had its share of `few`: later requests of other clients go first"),
            (Reason::Turn, "`few` has enough for it: requests ahead of it go first"),
            (Reason::Store, "the scheduler waits for the store, or for NATS"),
        ];
        for (reason, text) in table {
            assert_eq!(sentence(reason, &limit(), &holder, &about), text);
        }
        let sliding = LimitStatus { algorithm: "sliding-window".to_owned(), ..limit() };
        let text = sentence(Reason::Headroom, &sliding, &holder, &about);
        assert!(text.ends_with("enough in 3.1 s; in a sliding window that is 90 % less for good"), "{text}");
        let heard = LimitStatus { pause: Some("the upstream asked for 9 s".to_owned()), ..limit() };
        let text = sentence(Reason::Frozen, &heard, &holder, &about);
        assert!(text.ends_with("calls go on in 5 s; the upstream asked for 9 s"), "{text}");
        let ordered = LimitStatus { paused_by: Some(PauseCause::Operator), ..limit() };
        let text = sentence(Reason::Frozen, &ordered, &holder, &about);
        assert_eq!(text, "an operator demanded a pause of `few`: calls go on in 5 s");
        let likely = Holder { likely_free_ms: Some(125.0), level: 0.0, ..holder.clone() };
        let text = sentence(Reason::InFlight, &limit(), &likely, &about);
        let place = "the next is likely free in 125 ms, at the latest in 3.1 s";
        assert_eq!(text, format!("0 of 100 places of `few` are free, the others have calls in flight: {place}"));
        let text = sentence(Reason::Headroom, &limit(), &likely, &about);
        assert_eq!(text, format!("`few` has 0 of 100 left; class `bulk` must leave 90, and this takes 4: {place}"));
        let kept = Holder { held_back: Some(12.0), ..holder.clone() };
        let text = sentence(Reason::Stock, &limit(), &kept, &about);
        let expected =
            "`few` has 90.92 of 100 left, of which 12 are held back for others, and this takes 4: enough in 3.1 s";
        assert_eq!(text, expected);
        let never = Holder { key: Some("team\u{7}".to_owned()), pays_in_ms: None, ..holder };
        let text = sentence(Reason::QuotaSpent, &limit(), &never, &about);
        assert_eq!(text, "the quota `few` of `team\\u{7}` is spent, and is never reset");
    }
}
