//! Messages that wait for a permit loop, bounded in number and in bytes.

use crate::serve::messages::inbound::Inbound;
use std::collections::VecDeque;

/// Messages that may wait: the burst of a fleet whose workers all ask again.
const MOST: usize = 1 << 17;
/// What they may take of memory, with what each takes beside its payload. A message may have a
/// mebibyte.
const MOST_BYTES: usize = 64 << 20;
const OVERHEAD: usize = 256;

/// Messages in the order in which they came. A message that finds the bound reached is lost and
/// counted: its client asks again.
#[derive(Debug, Default)]
pub(crate) struct WaitingMessages {
    messages: VecDeque<Inbound>,
    bytes: usize,
    /// Lost since the last look.
    lost: u64,
}

impl WaitingMessages {
    pub(crate) fn push(&mut self, message: Inbound) {
        let bytes = self.bytes + size(&message);
        if self.messages.len() >= MOST || bytes > MOST_BYTES {
            self.lost += 1;
            return;
        }
        self.bytes = bytes;
        self.messages.push_back(message);
    }

    /// The oldest.
    pub(crate) fn pop(&mut self) -> Option<Inbound> {
        let message = self.messages.pop_front()?;
        self.bytes -= size(&message);
        Some(message)
    }

    /// How many were lost since the last call.
    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

fn size(message: &Inbound) -> usize {
    message.payload.len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::messages::inbound::Endpoint;
    use bytes::Bytes;

    /// How many of so many messages of this size are kept.
    fn kept(count: usize, payload: &Bytes) -> usize {
        let mut waiting = WaitingMessages::default();
        for _ in 0..count {
            waiting.push(Inbound { endpoint: Endpoint::Permit, reply: None, payload: payload.clone() });
        }
        let kept = std::iter::from_fn(|| waiting.pop()).count();
        assert_eq!((kept as u64 + waiting.take_lost(), waiting.take_lost()), (count as u64, 0));
        assert_eq!(waiting.bytes, 0);
        kept
    }

    #[test]
    fn messages_are_bounded_in_number_and_in_bytes() {
        assert_eq!(kept(MOST + 5, &Bytes::new()), MOST);
        assert_eq!(kept(100, &Bytes::from(vec![0; 1 << 20])), 63, "64 MiB with what they take beside their payloads");
    }
}
