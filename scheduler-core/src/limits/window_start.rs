//! Where in a window a call may start.

use crate::arithmetic::{Credit, Draw, WindowAlignment};
use crate::policy::Limit;
use rampmeter_protocol::time::Time;

/// The first start from `from` on in its window, of which `held` is taken, or else the window's end. The headroom that it has to leave
/// melts to nothing towards the end: nobody can use what is left then.
pub(super) fn start_in_window(
    limit: &Limit,
    alignment: &WindowAlignment,
    held: Credit,
    from: Time,
    draw: Draw,
) -> Result<Time, Time> {
    let window = alignment.window(from);
    let (first, last) = (from.max(window.starts + alignment.guard()), window.ends - alignment.guard());
    // What costs more than is given out, margin and all, has a window for itself.
    let most = limit.full().max(draw.cost) - draw.cost;
    let (room, headroom) = (most - held, limit.headroom(draw.tier).min(most));
    let start = if headroom <= room {
        first
    } else {
        // headroom × what is left of the window ≤ room × the whole window
        first.max(window.ends - room.share_of(headroom, window.length()))
    };
    if start < last { Ok(start) } else { Err(window.ends) }
}
