//! Which request goes next.

mod aside;
mod clients;
mod clock;
mod gate;
mod headcount;
mod line;
mod news;
mod order;
mod pass;
mod plan;
mod virtual_time;

pub(crate) use gate::{Crowd, Gate};
pub(crate) use headcount::Headcount;
pub(crate) use line::{Line, Place, Standing, Waiting};
pub(crate) use news::News;
pub(crate) use plan::{Hold, just_past};
pub use virtual_time::Weight;
