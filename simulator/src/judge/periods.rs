//! Checks that no window takes more of a limit than the limit has for one window.

use super::room::Room;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rampmeter_policy::spec::Alignment;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};

/// Identifies a window: equal for all times in it and different for all others.
pub(super) type Window = [i64; 3];

/// Returns the window of `at`, for windows that do not begin with their first call. Without an
/// alignment, one window lasts forever. The origin of time is the beginning of 1970.
pub(super) fn window(alignment: Option<&Alignment>, period: Span, at: Time) -> Window {
    match alignment {
        None | Some(Alignment::FirstUse) => [0; 3],
        Some(Alignment::Epoch) => [(at.nanos() / period.nanos()) as i64, 0, 0],
        Some(Alignment::Day(zone)) => day(zone, at),
        Some(Alignment::Month(zone)) => {
            let [year, month, _] = day(zone, at);
            [year, month, 0]
        }
    }
}

fn day(zone: &TimeZone, at: Time) -> Window {
    let at = Timestamp::from_nanosecond(i128::from(at.nanos())).expect("worlds end before the calendar does");
    let date = zone.to_datetime(at).date();
    [date.year().into(), date.month().into(), date.day().into()]
}

/// Returns by how many millionths a window exceeds its room, and when, if one does.
pub(super) fn excess(
    alignment: Option<&Alignment>,
    period: Span,
    room: Room,
    taken: impl Iterator<Item = (Time, Amount)>,
) -> Option<(i128, Time)> {
    let (mut began, mut sum, mut calls) = (None, 0, 0);
    for (at, amount) in taken {
        let same = |began: Time| match alignment {
            Some(Alignment::FirstUse) => at < began + period,
            Some(Alignment::Epoch | Alignment::Day(_) | Alignment::Month(_)) | None => {
                window(alignment, period, began) == window(alignment, period, at)
            }
        };
        if !began.is_some_and(same) {
            (began, sum, calls) = (Some(at), 0, 0);
        }
        sum += i128::from(amount.micros());
        calls += 1;
        if let Some(excess) = room.excess(sum, calls) {
            return Some((excess, at));
        }
    }
    None
}
