//! Two schedulers of the same resources: one leads, and one stands by.

use crate::patience::until;
use crate::process::{Process, Program};
use crate::wrong_clock::WrongClock;

/// The processes. Dropping it kills them.
pub struct Pair {
    members: [Process; 2],
    /// A restarted scheduler needs it again.
    _clock: Option<WrongClock>,
}

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member(usize);

impl Member {
    /// The scheduler with the first configuration.
    pub const FIRST: Self = Member(0);

    /// The other scheduler.
    pub fn other(self) -> Self {
        Member(1 - self.0)
    }
}

impl Pair {
    /// Starts one scheduler with each configuration, the second once the first leads, and waits until
    /// it stands by. Started at once, both may write the first record of an empty store in turn, so
    /// that the epoch is not known.
    pub async fn start(program: Program, [first, second]: [&str; 2]) -> Self {
        let first = Process::start_with(program, first, &[]).await;
        Self::with_leader([first, Process::begin(program, second, &[])], None).await
    }

    /// Starts two with this configuration, whose clocks of the day are fast by these seconds.
    pub async fn start_by(clocks: [i64; 2], program: Program, configuration: &str) -> Self {
        let clock = WrongClock::build().await;
        let begin = |fast| {
            let [library, off] = clock.fast_by(fast);
            let environment = [(library.0, &*library.1), (off.0, &*off.1)];
            Process::begin_in(program, configuration, &[], &environment)
        };
        Self::with_leader(clocks.map(begin), Some(clock)).await
    }

    async fn with_leader(members: [Process; 2], clock: Option<WrongClock>) -> Self {
        let pair = Pair { members, _clock: clock };
        pair.leader().await;
        pair
    }

    /// The one that leads, as soon as the other stands by.
    pub async fn leader(&self) -> Member {
        until("one leads and the other stands by", async || {
            let duties = [self.duty(Member(0)).await?, self.duty(Member(1)).await?];
            match [duties[0].as_str(), duties[1].as_str()] {
                ["leading", "standby"] => Some(Member(0)),
                ["standby", "leading"] => Some(Member(1)),
                _ => None,
            }
        })
        .await
    }

    /// The process of one scheduler.
    pub fn process(&self, member: Member) -> &Process {
        &self.members[member.0]
    }

    /// The process of one scheduler, to kill or restart it.
    pub fn process_mut(&mut self, member: Member) -> &mut Process {
        &mut self.members[member.0]
    }

    /// Whether one of them was replaced while it led, because the machine had stopped it for a while.
    pub fn was_replaced(&self) -> bool {
        self.members.iter().any(|member| member.log().contains("stepping down"))
    }

    async fn duty(&self, member: Member) -> Option<String> {
        let (_, body) = self.process(member).readiness().await?;
        body["resources"]["hub"]["state"].as_str().map(str::to_owned)
    }
}
