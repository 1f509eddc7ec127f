//! Searches every order in which a leader, two standbys and a newcomer may act over a store whose
//! answers are late or lost: no successor begins from less than its predecessor may grant.
//!
//! This is a model of the rules in ARCHITECTURE.md, in which only the numbers of checkpoints count: a
//! leader grants under the lowest checkpoint that a successor may begin from. Messages are never
//! removed, so that each may arrive late, twice or never. A process that takes no further step has died
//! or stands still. One change of leader is searched; the next one is alike.

use std::collections::{BTreeSet, HashSet};

const PROCESSES: u8 = 4;
const FIRST_LEADER: u8 = 0;
/// Sets of processes, as bits.
type Set = u8;
const NONE: Set = 0;
const ONE: Set = 0b0010;
const BOTH: Set = 0b0110;

/// The process that leads a term. The successors of a term differ in their processes alone.
type Term = (u8, u8);

/// A checkpoint in the sequence of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Checkpoint {
    term: Term,
    number: u8,
}

/// A record with a checkpoint, and the standbys that it lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Record {
    checkpoint: Checkpoint,
    listed: Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Message {
    /// To the store: a record over a revision. The first record of a term says where it begins from.
    Write { record: Record, over: u8, from: Option<Checkpoint> },
    /// From the store: it holds the record at this revision.
    Stored { record: Record, revision: u8 },
    /// To a standby, which is to hold the checkpoint.
    Hold { by: u8, checkpoint: Checkpoint },
    /// From a standby that holds it.
    Held { by: u8, checkpoint: Checkpoint },
}

/// What a standby knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Memory {
    stored: Option<Checkpoint>,
    held: Option<Checkpoint>,
    sealed_at: Option<u8>,
}

/// What the first leader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Leader {
    revision: u8,
    latest: Checkpoint,
    /// The lowest checkpoint that a successor may begin from, as far as the leader knows.
    lowest: u8,
    /// The standbys of all records that the store may hold, and whether each record lists any.
    witnesses: Set,
    all_list: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    store: Record,
    revision: u8,
    messages: BTreeSet<Message>,
    leader: Leader,
    memories: [Memory; PROCESSES as usize],
    /// What the newcomer has read, with its revision.
    read: Option<(Record, u8)>,
    /// What the successor begins from.
    followed: Option<Checkpoint>,
}

fn members(set: Set) -> impl Iterator<Item = u8> {
    (0..PROCESSES).filter(move |process| set & 1 << process != 0)
}

impl Checkpoint {
    fn is_behind(self, other: Checkpoint) -> bool {
        if self.term == other.term { self.number < other.number } else { self.term.0 <= other.term.0 }
    }
}

impl World {
    fn new(listed: Set) -> Self {
        let latest = Checkpoint { term: (1, FIRST_LEADER), number: 1 };
        World {
            store: Record { checkpoint: latest, listed },
            revision: 1,
            messages: BTreeSet::new(),
            leader: Leader { revision: 1, latest, lowest: 1, witnesses: listed, all_list: listed != NONE },
            memories: [Memory::default(); PROCESSES as usize],
            read: None,
            followed: None,
        }
    }

    /// All worlds that are one step away, if the leader makes so many checkpoints with such lists.
    fn next(&self, checkpoints: u8, lists: &[Set]) -> Vec<World> {
        let opened = lists.iter().filter(|_| self.leader.latest.number < checkpoints).map(|listed| self.open(*listed));
        let mut next: Vec<World> = opened.chain(self.go_on_with_witnesses()).chain(self.read_own_record()).collect();
        next.extend(members(BOTH).map(|standby| self.look(standby)));
        if self.followed.is_none() {
            next.extend((1..PROCESSES).map(|process| self.read_to_follow(process)));
            next.extend(self.read.into_iter().flat_map(|(record, over)| self.ask_witnesses(record, over)));
        }
        next.extend(self.messages.iter().filter_map(|message| self.deliver(*message)));
        next
    }

    fn with(&self, change: impl FnOnce(&mut World)) -> World {
        let mut world = self.clone();
        change(&mut world);
        world
    }

    /// The leader sends a checkpoint to the store and to the witnesses.
    fn open(&self, listed: Set) -> World {
        self.with(|world| {
            let leader = &mut world.leader;
            leader.latest.number += 1;
            leader.witnesses |= listed;
            leader.all_list &= listed != NONE;
            let (checkpoint, over) = (leader.latest, leader.revision);
            let holds = members(leader.witnesses).map(|by| Message::Hold { by, checkpoint });
            world.messages.extend(holds);
            world.messages.insert(Message::Write { record: Record { checkpoint, listed }, over, from: None });
        })
    }

    fn go_on_with_witnesses(&self) -> Option<World> {
        let Leader { latest, witnesses, all_list, .. } = self.leader;
        let is_held = |by| self.messages.contains(&Message::Held { by, checkpoint: latest });
        (all_list && members(witnesses).all(is_held)).then(|| self.with(|world| world.leader.lowest = latest.number))
    }

    /// The leader finds a record of its own term in the store, and writes over it from now on.
    fn read_own_record(&self) -> Option<World> {
        let is_own = self.store.checkpoint.term == self.leader.latest.term;
        is_own.then(|| self.with(|world| world.leader.revision = self.revision))
    }

    /// A standby sees what the store has.
    fn look(&self, standby: u8) -> World {
        self.with(|world| {
            let memory = &mut world.memories[standby as usize];
            if memory.stored.is_none_or(|known| !self.store.checkpoint.is_behind(known)) {
                memory.stored = Some(self.store.checkpoint);
            }
            memory.sealed_at = memory.sealed_at.filter(|sealed| self.revision <= *sealed);
        })
    }

    /// A process reads the store to follow the leader. It knows what to begin from if it is listed, or
    /// if there is nobody to be asked.
    fn read_to_follow(&self, process: u8) -> World {
        let (record, over) = (self.store, self.revision);
        self.with(|world| {
            let held = world.seal(process, over);
            if record.listed & 1 << process != 0 || record.listed == NONE {
                world.follow(process, record, over, held);
            } else if process == PROCESSES - 1 {
                world.read = Some((record, over));
            }
        })
    }

    /// The newcomer hears from one of the listed standbys.
    fn ask_witnesses(&self, record: Record, over: u8) -> impl Iterator<Item = World> {
        members(record.listed).map(move |by| {
            self.with(|world| {
                let held = world.seal(by, over);
                world.follow(PROCESSES - 1, record, over, held);
            })
        })
    }

    fn seal(&mut self, process: u8, over: u8) -> Option<Checkpoint> {
        let memory = &mut self.memories[process as usize];
        if BOTH & 1 << process != 0 {
            memory.sealed_at = memory.sealed_at.max(Some(over));
        }
        memory.held
    }

    /// Sends the first record of a term that follows `record`.
    fn follow(&mut self, process: u8, record: Record, over: u8, held: Option<Checkpoint>) {
        let Checkpoint { term, number } = record.checkpoint;
        let held = held.filter(|held| held.term == term && held.number > number);
        let first = Checkpoint { term: (term.0 + 1, process), number: 1 };
        let record = Record { checkpoint: first, listed: NONE };
        let from = Some(held.unwrap_or(Checkpoint { term, number }));
        self.messages.insert(Message::Write { record, over, from });
    }

    fn deliver(&self, message: Message) -> Option<World> {
        match message {
            Message::Write { record, over, from } => (over == self.revision).then(|| {
                self.with(|world| {
                    (world.store, world.revision) = (record, over + 1);
                    world.followed = from.or(world.followed);
                    world.messages.insert(Message::Stored { record, revision: over + 1 });
                })
            }),
            // The leader hears of its last write only.
            Message::Stored { record, revision } => (record.checkpoint == self.leader.latest).then(|| {
                let Record { listed, checkpoint } = record;
                let (lowest, latest) = (checkpoint.number, checkpoint);
                let leader = Leader { revision, latest, lowest, witnesses: listed, all_list: listed != NONE };
                self.with(|world| world.leader = leader)
            }),
            Message::Hold { by, checkpoint } => {
                let Memory { stored, held, sealed_at } = self.memories[by as usize];
                let is_behind = stored.into_iter().chain(held).any(|known| checkpoint.is_behind(known));
                (sealed_at.is_none() && !is_behind).then(|| {
                    self.with(|world| {
                        world.memories[by as usize].held = Some(checkpoint);
                        world.messages.insert(Message::Held { by, checkpoint });
                    })
                })
            }
            Message::Held { .. } => None,
        }
    }

    fn is_safe(&self) -> bool {
        self.followed.is_none_or(|from| self.leader.lowest <= from.number)
    }
}

/// The number of worlds that can be reached.
fn search(checkpoints: u8, lists: &[Set]) -> usize {
    let first = World::new(lists[0]);
    let (mut seen, mut open) = (HashSet::from([first.clone()]), vec![first]);
    while let Some(world) = open.pop() {
        assert!(world.is_safe(), "{world:#?}");
        let new = world.next(checkpoints, lists).into_iter().filter(|next| seen.insert(next.clone()));
        open.extend(new.collect::<Vec<_>>());
    }
    seen.len()
}

/// Checkpoints of the leader, and the lists that its records may have, the first one at the beginning.
#[test]
fn no_successor_begins_from_less_than_was_granted() {
    for (checkpoints, lists) in
        [(2, &[BOTH, ONE, NONE][..]), (2, &[ONE, BOTH, NONE]), (2, &[NONE, ONE, BOTH]), (3, &[ONE])]
    {
        let worlds = search(checkpoints, lists);
        assert!(worlds > 10_000, "{worlds} worlds are too few to show anything");
    }
}
