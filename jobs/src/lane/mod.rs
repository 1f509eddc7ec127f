//! The lanes in which jobs wait, one for each class and group.

pub(super) mod lease;
pub(super) mod places;

use crate::QueueError;
use rampmeter_protocol::name::Name;

/// Bound on the bytes of a group. A label's value may be as long.
const MAX_GROUP: usize = 256;
/// The subject token of jobs without a class.
const NO_CLASS: &str = "-";

/// The lane of a class and group, whose jobs begin in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lane {
    pub(crate) class: Option<Name>,
    pub(crate) group: String,
}

/// The subjects of one queue: a stream of jobs and dead letters, and one of lanes with a message per subject.
#[derive(Clone, Debug)]
pub(crate) struct Subjects {
    jobs: String,
    lanes: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneMessage {
    Job,
    /// Jobs that were given up.
    Dead,
    LaneLease,
    Attempt,
}

impl Lane {
    pub(crate) fn new(class: Option<&str>, group: &str) -> Result<Self, QueueError> {
        let invalid = |what: &str| QueueError::invalid(what.to_owned());
        if !(1..=MAX_GROUP).contains(&group.len()) {
            return Err(invalid("a group is 1 to 256 bytes long"));
        }
        let class = class.map(class_name).transpose()?;
        Ok(Lane { class, group: group.to_owned() })
    }
}

pub(crate) fn class_name(class: &str) -> Result<Name, QueueError> {
    let name = Name::new(class).map_err(|error| QueueError::invalid(format!("class {class:?}: {error}")))?;
    match class {
        NO_CLASS => Err(QueueError::invalid("class \"-\" means jobs without a class; leave it out")),
        _named => Ok(name),
    }
}

impl Subjects {
    pub(crate) fn new(prefix: &Name, queue: &Name) -> Self {
        Subjects { jobs: format!("{prefix}.jobs.{queue}"), lanes: format!("{prefix}.lanes.{queue}") }
    }

    pub(crate) fn all_jobs(&self) -> String {
        format!("{}.>", self.jobs)
    }

    pub(crate) fn all_lanes(&self) -> String {
        format!("{}.>", self.lanes)
    }

    pub(crate) fn repeated(&self) -> String {
        format!("{}.repeated", self.lanes)
    }

    pub(crate) fn of(&self, kind: LaneMessage, lane: &Lane) -> String {
        format!("{}.{}.{}", self.under(kind), class_token(lane.class.as_ref()), encoded(&lane.group))
    }

    pub(crate) fn all(&self, kind: LaneMessage) -> String {
        format!("{}.>", self.under(kind))
    }

    /// Returns the wildcard subject of `kind` for all lanes of a class.
    pub(crate) fn of_class(&self, kind: LaneMessage, class: Option<&Name>) -> String {
        format!("{}.{}.*", self.under(kind), class_token(class))
    }

    /// Returns the lane of `subject`, or `None` if the subject has another form.
    pub(crate) fn lane(&self, kind: LaneMessage, subject: &str) -> Option<Lane> {
        let rest = subject.strip_prefix(&self.under(kind))?.strip_prefix('.')?;
        let (class, group) = rest.split_once('.')?;
        let class = if class == NO_CLASS { None } else { Some(Name::new(class).ok()?) };
        Some(Lane { class, group: decoded(group)? })
    }

    fn under(&self, kind: LaneMessage) -> String {
        match kind {
            LaneMessage::Job => format!("{}.job", self.jobs),
            LaneMessage::Dead => format!("{}.dead", self.jobs),
            LaneMessage::LaneLease => format!("{}.baton", self.lanes),
            LaneMessage::Attempt => format!("{}.attempt", self.lanes),
        }
    }
}

/// Returns the class as one token of a subject and a part of a consumer's name.
pub(crate) fn class_token(class: Option<&Name>) -> &str {
    class.map_or(NO_CLASS, |class| class)
}

/// Escapes bytes other than letters, digits, `_` and `-` as `=` and two hexadecimal digits.
fn encoded(group: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => char::from(byte).to_string(),
        _other => format!("={byte:02X}"),
    };
    group.bytes().map(byte).collect()
}

fn decoded(token: &str) -> Option<String> {
    let mut pieces = token.split('=');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (hex, plain) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(hex, 16).ok()?);
        bytes.extend_from_slice(plain.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn subjects() -> Subjects {
        Subjects::new(&Name::new("rampmeter").unwrap(), &Name::new("roles").unwrap())
    }

    #[test]
    fn lanes_have_subjects_that_people_can_read() {
        let urgent = Lane::new(Some("urgent"), "guild-17").unwrap();
        assert_eq!(subjects().of(LaneMessage::Job, &urgent), "rampmeter.jobs.roles.job.urgent.guild-17");
        let plain = Lane::new(None, "a.b *").unwrap();
        assert_eq!(subjects().of(LaneMessage::LaneLease, &plain), "rampmeter.lanes.roles.baton.-.a=2Eb=20=2A");
        assert_eq!(subjects().lane(LaneMessage::Dead, "rampmeter.jobs.roles.job.-.a"), None);
    }

    /// Reaches `MAX_GROUP`.
    #[test]
    fn what_is_no_lane_is_refused() {
        assert!(Lane::new(None, &"a".repeat(256)).is_ok());
        for (class, group) in [(None, ""), (Some("-"), "a"), (Some("a b"), "a"), (None, &*"a".repeat(257))] {
            assert!(Lane::new(class, group).is_err(), "{class:?} {group:?}");
        }
    }

    proptest! {
        #[test]
        fn every_group_is_found_again(group in ".{1,60}") {
            let lane = Lane::new(None, &group).unwrap();
            let subject = subjects().of(LaneMessage::Attempt, &lane);
            prop_assert!(!subject.contains([' ', '*', '>']) && subject.split('.').count() == 6);
            prop_assert_eq!(subjects().lane(LaneMessage::Attempt, &subject), Some(lane));
        }
    }
}
