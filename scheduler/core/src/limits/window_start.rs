//! Where in a window a call may start.

use super::window_phase::Windows;
use crate::arithmetic::{Credit, StartCost};
use crate::policy::Limit;
use rampmeter_protocol::time::Time;

/// The first start from `from` on in its window, whose usage is `used`, or else the window's end.
/// The headroom and the stock held back for other accounts shrink to nothing towards the end,
/// because capacity left there is lost.
pub(super) fn start_in_window(
    limit: &Limit,
    windows: Windows<'_>,
    used: Credit,
    from: Time,
    cost: StartCost,
) -> Result<Time, Time> {
    let window = windows.window(from);
    let (first, last) = windows.starts_in(window);
    let first = first.max(from);
    // A call that costs more than the window gives out has a window for itself.
    let most = limit.full().max(cost.credit) - cost.credit;
    let headroom = limit.headroom(cost.tier) + windows.held_back(limit, window);
    let (room, headroom) = (most - used, headroom.min(most));
    let start = if headroom <= room {
        first
    } else {
        // headroom × what is left of the window ≤ room × the whole window
        first.max(window.ends - room.share_of(headroom, window.length()))
    };
    if start < last { Ok(start) } else { Err(window.ends) }
}
