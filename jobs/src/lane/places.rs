//! Decides which jobs of a lane run and which wait, without a clock or a connection.
//!
//! The first jobs of a lane have places, as many as may run at once. A job keeps its place while it waits for
//! its permit or another attempt, so with one place jobs keep their order.

use crate::lane::lease::{Known, LaneLease, PutBack, Wait};
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// How many jobs of each place begin before other lanes that wait for this worker get a turn.
const TURNS: usize = 16;
/// When a lane with a free place is looked at again while some of its jobs run.
const LOOK_AGAIN: Span = Span::from_millis(200);

/// When a lane is looked at again if all its jobs wait. No message announces an arrival.
const MAX_SLEEP_MS: u64 = 2000;
const NANOS_PER_MILLI: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    running: BTreeSet<u64>,
    /// Waiting jobs, with the time from which each may be tried again.
    waiting: BTreeMap<u64, (Time, Wait)>,
    turns: usize,
    /// The last job that was looked at, in the order of the lane.
    seen: u64,
    /// When a look found no job after `seen`; `None` if there may be one.
    end_seen: Option<Time>,
    looking: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextLookup {
    At(Wait),
    /// The first job after this sequence.
    After(u64),
}

impl Places {
    pub(crate) fn new(most: usize, now: Time, Known { waits, seen, .. }: Known) -> Self {
        let waiting = waits.into_iter().map(|wait| (wait.job, (now + Span::from_millis(wait.after_ms), wait)));
        Places {
            most,
            running: BTreeSet::new(),
            waiting: waiting.collect(),
            turns: TURNS * most,
            seen,
            end_seen: None,
            looking: false,
        }
    }

    /// Begins the next look, if one is due and none is under way.
    pub(crate) fn look(&mut self, now: Time) -> Option<NextLookup> {
        if self.looking || self.next_look()? > now {
            return None;
        }
        self.looking = true;
        let due = self.waiting.values().find(|(due, _)| *due <= now).map(|(_, wait)| *wait);
        Some(due.map_or(NextLookup::After(self.seen), NextLookup::At))
    }

    /// Returns when the next look is due, or `None` while none can begin.
    pub(crate) fn next_look(&self) -> Option<Time> {
        if self.looking || self.turns == 0 || self.running.len() >= self.most {
            return None;
        }
        let due = self.waiting.values().map(|(due, _)| *due).min();
        let further = self.has_room().then(|| self.end_seen.map_or(Time::ORIGIN, |seen| seen + LOOK_AGAIN));
        due.into_iter().chain(further).min()
    }

    /// Returns whether another job may begin beside those that run or wait.
    fn has_room(&self) -> bool {
        self.running.len() + self.waiting.len() < self.most
    }

    /// Handles the result of a look at `now`. Returns the wait of the job if it begins now.
    pub(crate) fn found(&mut self, now: Time, look: NextLookup, job: Option<u64>) -> Option<Wait> {
        self.looking = false;
        match (look, job) {
            (NextLookup::At(wait), job) => {
                self.waiting.remove(&wait.job);
                job.map(|job| self.begin(job, wait))
            }
            (NextLookup::After(_), None) => {
                self.end_seen = Some(now);
                None
            }
            (NextLookup::After(_), Some(job)) => {
                (self.seen, self.end_seen) = (job, None);
                let known = self.running.contains(&job) || self.waiting.contains_key(&job);
                (!known).then(|| self.begin(job, Wait::default()))
            }
        }
    }

    fn begin(&mut self, job: u64, wait: Wait) -> Wait {
        self.running.insert(job);
        self.turns = self.turns.saturating_sub(1);
        wait
    }

    /// Notes that a job has left the lane.
    pub(crate) fn gone(&mut self, job: u64) {
        self.running.remove(&job);
    }

    /// Notes that a job has to wait from `now` on.
    pub(crate) fn waits(&mut self, now: Time, wait: Wait) {
        self.running.remove(&wait.job);
        self.waiting.insert(wait.job, (now + Span::from_millis(wait.after_ms), wait));
    }

    /// Returns the lease to leave at `now`, when no job runs.
    pub(crate) fn lane_lease(self, now: Time) -> LaneLease {
        let room = self.has_room();
        let left =
            |(due, wait): &(Time, Wait)| Wait { after_ms: due.since(now).nanos().div_ceil(NANOS_PER_MILLI), ..*wait };
        let waits = self.waiting.values().map(left).collect();
        match (self.waiting.is_empty(), self.end_seen) {
            (true, Some(_)) => LaneLease::Closing,
            (true, None) => LaneLease::Go,
            (false, _) if !room => LaneLease::Later(PutBack::of(waits, None, None)),
            (false, Some(_)) => LaneLease::Later(PutBack::of(waits, Some(self.seen), Some(MAX_SLEEP_MS))),
            // Jobs that were not looked at may run at once.
            (false, None) => LaneLease::Later(PutBack::of(waits, Some(self.seen), Some(0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Span::from_millis(ms)
    }

    const NONE: Known = Known { waits: Vec::new(), seen: 0, pace_ms: None };

    fn wait(job: u64, after_ms: u64) -> Wait {
        Wait { job, after_ms, ..Wait::default() }
    }

    /// Looks until no place is free or no job of 1 to `last` is left. Returns the jobs that begin.
    fn fill(places: &mut Places, now: Time, last: u64) -> Vec<u64> {
        let mut begun = Vec::new();
        while let Some(look) = places.look(now) {
            let job = match look {
                NextLookup::At(wait) => Some(wait.job),
                NextLookup::After(seen) => Some(seen + 1).filter(|job| *job <= last),
            };
            begun.extend(places.found(now, look, job).and(job));
        }
        begun
    }

    #[test]
    fn one_place_keeps_the_order() {
        let mut places = Places::new(1, at(0), NONE);
        assert_eq!(fill(&mut places, at(0), 3), [1]);
        places.gone(1);
        assert_eq!(fill(&mut places, at(5), 3), [2]);
        places.waits(at(10), wait(2, 500));
        assert_eq!((fill(&mut places, at(100), 3), places.next_look()), (vec![], Some(at(510))));
        let LaneLease::Later(put_back) = places.lane_lease(at(110)) else { panic!("the lane waits") };
        assert_eq!((put_back.first.after_ms, put_back.room_after), (400, None));
    }

    #[test]
    fn jobs_run_side_by_side_and_keep_their_places_while_they_wait() {
        let mut places = Places::new(3, at(0), NONE);
        assert_eq!(fill(&mut places, at(0), 9), [1, 2, 3]);
        places.waits(at(1), wait(2, 1000));
        places.gone(1);
        assert_eq!(fill(&mut places, at(1), 9), [4], "the place of 1; that of 2 is kept");
        assert_eq!(fill(&mut places, at(1001), 9), [2]);
    }

    #[test]
    fn a_lane_with_a_free_place_is_looked_at_again() {
        let mut places = Places::new(2, at(0), NONE);
        assert_eq!(fill(&mut places, at(0), 1), [1]);
        assert_eq!(places.next_look(), Some(at(200)));
        assert_eq!(fill(&mut places, at(200), 2), [2]);
        assert_eq!(places.next_look(), None);
    }

    #[test]
    fn a_lane_is_left_for_the_first_wait_or_at_once() {
        let left = |most, last| {
            let mut places = Places::new(most, at(0), Known { waits: vec![wait(1, 5000)], ..NONE });
            let begun = fill(&mut places, at(0), last);
            begun.iter().for_each(|job| places.gone(*job));
            places.lane_lease(at(1000))
        };
        let later = |room_after, most_ms| LaneLease::Later(PutBack::of(vec![wait(1, 4000)], room_after, most_ms));
        assert_eq!(left(1, 1), later(None, None));
        assert_eq!(left(2, 1), later(Some(1), Some(2000)), "another job may come");
        assert_eq!(Places::new(2, at(0), NONE).lane_lease(at(0)), LaneLease::Go);
    }

    #[test]
    fn other_lanes_get_a_turn_and_waits_are_kept() {
        let mut places = Places::new(2, at(0), Known { waits: vec![wait(1, 5000)], ..NONE });
        let mut all = 0;
        loop {
            let begun = fill(&mut places, at(0), 1000);
            all += begun.len();
            begun.iter().for_each(|job| places.gone(*job));
            if begun.is_empty() {
                break;
            }
        }
        assert_eq!(all, 2 * TURNS);
        let LaneLease::Later(put_back) = places.lane_lease(at(1000)) else { panic!("a job waits") };
        assert_eq!((put_back.first.after_ms, put_back.others), (0, vec![wait(1, 4000)]));
    }
}
