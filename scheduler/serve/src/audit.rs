//! The log of operators' actions, under a target of its own, kept by `RAMPMETER_LOG=warn,rampmeter_audit=info`.

const AUDIT: &str = "rampmeter_audit";
/// Bound on the bytes of an order that a line shows.
const MAX_ORDER: usize = 300;

/// An operator's order. The line is written before the order is carried out, even if it is then refused.
#[derive(Clone, Copy, Debug)]
pub struct Action<'a> {
    /// The name of the token, or the NATS user; empty if unknown.
    pub who: &'a str,
    /// The kind of the order.
    pub what: &'a str,
    /// The resource or queue.
    pub on: &'a str,
    /// The client's address, or `nats`, which reveals none.
    pub from: &'a str,
    /// The order as it was sent. It holds no secret.
    pub order: &'a [u8],
}

impl Action<'_> {
    /// Writes the log line.
    pub fn log(&self) {
        let Action { who, what, on, from, order } = *self;
        let order = String::from_utf8_lossy(&order[..order.len().min(MAX_ORDER)]);
        tracing::info!(target: AUDIT, who, what, on, from, order = &*order, "an operator's order");
    }
}
