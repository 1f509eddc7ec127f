//! Handles that stand for request ids on the page, because ids are secrets.

use rampmeter_protocol::id::PermitId;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};

/// Bound on the remembered handles: hundreds of pages of ten requests. Browsers with older ones begin again.
const MAX_HANDLES: usize = 8192;
/// Characters of an id that are shown, so that people find it in their logs. The rest stays secret.
const SHOWN_CHARACTERS: usize = 8;

/// The recently shown ids, by their handles.
#[derive(Debug)]
pub(super) struct Handles {
    secret: [u8; 32],
    ids: HashMap<String, PermitId>,
    order: VecDeque<String>,
}

impl Default for Handles {
    fn default() -> Self {
        Handles { secret: rand::random(), ids: HashMap::new(), order: VecDeque::new() }
    }
}

impl Handles {
    /// Returns the handle of `id`, which is always the same.
    pub(super) fn handle(&mut self, id: &PermitId) -> String {
        let digest = Sha256::new().chain_update(self.secret).chain_update(id.as_str().as_bytes()).finalize();
        let handle: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        if self.ids.insert(handle.clone(), id.clone()).is_none() {
            self.order.push_back(handle.clone());
        }
        while self.order.len() > MAX_HANDLES {
            self.order.pop_front().map(|oldest| self.ids.remove(&oldest));
        }
        handle
    }

    /// Returns the id behind `handle`, if it was shown lately.
    pub(super) fn id(&self, handle: &str) -> Option<PermitId> {
        self.ids.get(handle).cloned()
    }
}

/// Returns the first characters of `id`, at most half of them.
pub(super) fn shortened(id: &PermitId) -> String {
    let count = (id.as_str().chars().count() / 2).min(SHOWN_CHARACTERS);
    format!("{}…", id.as_str().chars().take(count).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> PermitId {
        PermitId::new(text).unwrap()
    }

    #[test]
    fn a_handle_stands_for_one_id_and_tells_nothing_of_it() {
        let mut handles = Handles::default();
        let handle = handles.handle(&id("job-1"));
        assert_eq!(handle, handles.handle(&id("job-1")));
        assert_eq!(handles.id(&handle), Some(id("job-1")));
        assert_ne!(handle, Handles::default().handle(&id("job-1")), "another process has another secret");
        assert_eq!(handles.id("job-1"), None);
    }

    #[test]
    fn handles_are_bounded() {
        let mut handles = Handles::default();
        let first = handles.handle(&id("first"));
        for number in 0..MAX_HANDLES {
            handles.handle(&id(&number.to_string()));
        }
        assert_eq!((handles.id(&first), handles.ids.len()), (None, MAX_HANDLES));
    }

    #[test]
    fn most_of_an_id_is_not_shown() {
        assert_eq!(shortened(&id("0123456789abcdef0123456789abcdef")), "01234567…");
        assert_eq!(shortened(&id("job-17")), "job…");
        assert_eq!(shortened(&id("x")), "…");
    }
}
