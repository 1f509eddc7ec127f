//! Changes of the upstream's policies, and queries for its levels.

use super::Run;
use crate::world_event::WorldEvent;
use rampmeter_protocol::time::Time;

impl Run<'_> {
    pub(super) fn plan_upstream(&mut self) {
        for (number, (at, _)) in self.world.upstream.changes.iter().enumerate() {
            self.agenda.note(*at, WorldEvent::PoliciesChange { number });
        }
        self.ask_for_levels(Time::ORIGIN);
    }

    fn ask_for_levels(&mut self, before: Time) {
        if let Some(interval) = self.world.polled {
            let asked = before + interval;
            self.agenda.note(asked + self.world.network.call.draw(&mut self.dice), WorldEvent::LevelsAsked { asked });
        }
    }

    pub(super) fn poll_levels(&mut self, now: Time, asked: Time) {
        let levels = self.upstream.levels(now);
        let answered = now + self.world.network.response.draw(&mut self.dice);
        self.agenda.note(answered, WorldEvent::LevelsArrived { asked, levels });
        self.ask_for_levels(asked);
    }
}
