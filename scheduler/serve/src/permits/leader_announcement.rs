//! A permit loop's announcements of its term: the leader's name, and the beginning of grants.

use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::news::News;
use tokio::sync::oneshot;

/// Tells workers and this process that a term has begun.
///
/// This process hears once in a term that permits are granted; workers may hear it again.
#[derive(Debug)]
pub(crate) struct LeaderAnnouncement {
    leader: String,
    opened: Option<oneshot::Sender<()>>,
}

impl LeaderAnnouncement {
    pub(crate) fn new(leader: String, opened: oneshot::Sender<()>) -> Self {
        LeaderAnnouncement { leader, opened: Some(opened) }
    }

    /// The name of this scheduler process.
    pub(crate) fn leader(&self) -> &str {
        &self.leader
    }

    /// Tells this process that permits are granted from now on.
    pub(crate) fn open(&mut self) {
        if let Some(opened) = self.opened.take() {
            opened.send(()).ok();
        }
    }

    /// The announcement to workers. Workers that wait ask again.
    pub(crate) fn news(&self, epoch: Epoch) -> News {
        News::Leader { epoch, leader: self.leader.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_opens_once_and_is_announced_in_each_epoch() {
        let (open, mut opened) = oneshot::channel();
        let mut announcement = LeaderAnnouncement::new("a".to_owned(), open);
        assert!(opened.try_recv().is_err());
        announcement.open();
        assert_eq!(opened.try_recv(), Ok(()));
        announcement.open();
        assert_eq!(announcement.news(Epoch::new(7)), News::Leader { epoch: Epoch::new(7), leader: "a".to_owned() });
    }
}
