//! The log of operators' actions. Its lines have a target of their own, by which they can be kept
//! when others are not: `RAMPMETER_LOG=warn,rampmeter_audit=info`.

/// The target of the lines.
const AUDIT: &str = "rampmeter_audit";
/// The most bytes of an order that a line shows.
const MAX_ORDER: usize = 300;

/// What somebody has ordered. A line is written before the order is carried out, and also if it is
/// refused then.
#[derive(Clone, Copy, Debug)]
pub struct Action<'a> {
    /// The name of the token, or the user of NATS; empty if it is not known.
    pub who: &'a str,
    /// The kind of the order.
    pub what: &'a str,
    /// The resource or queue.
    pub on: &'a str,
    /// An address, or `nats`, which tells none.
    pub from: &'a str,
    /// The order as it was sent. It holds no secret.
    pub order: &'a [u8],
}

impl Action<'_> {
    /// Writes the line.
    pub fn log(&self) {
        let Action { who, what, on, from, order } = *self;
        let order = String::from_utf8_lossy(&order[..order.len().min(MAX_ORDER)]);
        tracing::info!(target: AUDIT, who, what, on, from, order = &*order, "an operator's order");
    }
}
