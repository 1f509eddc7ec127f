//! Handles requests from the rest of the process, and questions about the loop.

use crate::limits::limit_sources::limit_news;
use crate::limits::provider_view::{ProviderNews, levels_by_limit};
use crate::messages::inbound::Address;
use crate::permits::answers::loop_request::{LoopRequest, Report};
use crate::permits::permit_loop::PermitLoop;
use rampmeter_config::limits_text;
use rampmeter_policy::Resource;
use rampmeter_protocol::explain::Question;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::news::News;
use rampmeter_protocol::status::{RulesStatus, Status, StatusQuery};
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::event::Event;

impl PermitLoop {
    /// Handles a request from the rest of the process, except for the end of the term.
    pub(super) fn handle_request(&mut self, request: LoopRequest) {
        let (now, driver) = (self.timer.now(), &mut self.driver);
        match request {
            // It ends the loop.
            LoopRequest::HandOver(_) => {}
            LoopRequest::CheckpointWritten(number) => self.note_checkpoint(now, Event::CheckpointStored(number)),
            LoopRequest::CheckpointWitnessed(number) => {
                driver.tally.witnessed += 1;
                self.note_checkpoint(now, Event::CheckpointWitnessed(number));
            }
            LoopRequest::CheckpointRefused(number) => self.term.note_refused_checkpoint(now, driver, number),
            LoopRequest::StoreLost => driver.tally.store_losses += 1,
            LoopRequest::WallClock { origin, ahead_secs } => {
                driver.tally.clock_ahead_secs = ahead_secs;
                driver.handle(now, Event::WallClock(origin));
            }
            LoopRequest::Provider(news) => self.take_provider_news(now, news),
            LoopRequest::Rules => self.take_rules(now),
            LoopRequest::Report(to) => {
                to.send(self.report(now)).ok();
            }
            LoopRequest::TakeUse(to) => {
                to.send(driver.take_use()).ok();
            }
            LoopRequest::Forecasts(forecasts) => self.reports.note_forecasts(now, forecasts),
        }
    }

    fn take_provider_news(&mut self, now: Time, news: ProviderNews) {
        let (driver, Some(provider)) = (&mut self.driver, &mut self.limits.provider) else { return };
        let resource = driver.core().resource();
        match news {
            ProviderNews::Limits(contract) => {
                let changed = provider.take_contract(now, driver.written(), contract);
                self.change_limits(now, changed);
            }
            ProviderNews::Levels { asked, answered, levels } => {
                let levels = levels_by_limit(resource, answered.since(asked), &levels);
                driver.handle(now, Event::Levels { asked, answered, levels });
            }
            ProviderNews::Trouble(error) => {
                provider.note_trouble(resource.name(), &error);
                driver.tally.provider_failures[error.kind as usize] += 1;
            }
            ProviderNews::Well => provider.note_well(resource.name()),
        }
    }

    /// Applies changed rules, and then the provider's contract to them.
    fn take_rules(&mut self, now: Time) {
        let Some(resource) = self.limits.take_rules() else { return };
        let revision = self.limits.revision().get();
        tracing::info!(resource = %resource.name(), revision, "limits count as the rules have them");
        self.change_limits(now, Some(resource));
        let present = self.driver.written();
        let corrected = self.limits.provider.as_mut().and_then(|provider| provider.keep_to_contract(present));
        self.change_limits(now, corrected);
    }

    fn change_limits(&mut self, now: Time, changed: Option<Resource>) {
        let (driver, Some(resource)) = (&mut self.driver, changed) else { return };
        let limits = limit_news(driver.written(), &resource);
        driver.handle(now, Event::Limits(Box::new(resource)));
        self.recent.limits_changed(driver.core().counters());
        let epoch = Some(driver.core().epoch());
        driver.outbox.announce(&News::Limits { limits, epoch });
    }

    pub(super) fn answer_status(&mut self, now: Time, reply: Option<Address>, asked: StatusQuery) {
        let Some(reply) = reply else { return };
        let text = match self.reports.known_text(now, asked) {
            Some(known) => known,
            None => {
                let limits_toml = asked.limits_toml.then(|| limits_text(&self.driver.limits_in_force()));
                let configured_toml = self.limits.configured().filter(|_| asked.limits_toml).map(limits_text);
                let shares = asked.shares.then(|| self.driver.shares(now));
                let (counters, tally) = (self.driver.core().counters(), &self.driver.tally);
                let recent = asked.recent.then(|| self.recent.report(now, counters, tally));
                let status = Status { limits_toml, configured_toml, shares, recent, ..self.status(now) };
                let text = self.reports.note_text(now, asked, &status);
                self.reports.spend(now, self.timer.now().since(now));
                text
            }
        };
        self.driver.outbox.send_text(reply, text);
    }

    fn report(&mut self, now: Time) -> Report {
        if let Some(known) = self.reports.known_report(now) {
            return known;
        }
        let status = self.status(now);
        let report = self.driver.report(now, status);
        self.reports.note_report(now, &report);
        self.reports.spend(now, self.timer.now().since(now));
        report
    }

    fn status(&mut self, now: Time) -> Status {
        let (provider, rules) = self.limits.status(now);
        let differ = self.limits.differ(&self.context.leader);
        let rules = rules.map(|rules| RulesStatus { differ, ..rules });
        let name = self.driver.core().resource().name();
        let (differing, standbys) =
            (self.context.differences.of(name), Some(self.context.peers.standbys(now, name).len() as u64));
        let forecasts = self.reports.forecasts(now);
        let status = self.driver.status(now, &self.context.leader);
        let is_there = |limit: &Name| status.limits.iter().any(|shown| shown.name == *limit);
        let notes = self.limits.notes.iter().filter(|(limit, _)| is_there(limit)).map(|(_, note)| note.clone());
        let (notes, since) = (notes.collect(), Some(self.since.clone()));
        Status { notes, provider, rules, standbys, differing, forecasts, since, ..status }
    }

    pub(super) fn explain(&mut self, now: Time, reply: Option<Address>, payload: &[u8]) {
        let Some(reply) = reply else { return };
        if !self.reports.allows(now) {
            return self.driver.put_off(reply);
        }
        self.driver.explain(now, reply, Question::parse(payload));
        self.reports.spend(now, self.timer.now().since(now));
    }
}
