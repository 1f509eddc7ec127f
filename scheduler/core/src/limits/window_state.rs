//! What status and answers tell of the present window.

use super::window_phase::Interval;
use crate::arithmetic::Credit;
use rampmeter_protocol::time::Time;

/// The present window of a bucket that has windows, and what other accounts use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowState {
    /// When the window ends, if time is cut into windows.
    pub(crate) ends: Option<Time>,
    /// The interval in which the upstream's window ends, if its responses tell.
    pub(crate) reported_end: Option<Interval>,
    /// The usage by other accounts.
    pub(crate) claimed: Credit,
    /// The stock that is held back for other accounts.
    pub(crate) held_for_others: Credit,
}
