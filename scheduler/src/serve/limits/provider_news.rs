//! What a permit loop hears of whoever knows its limits, and makes of it.

use crate::provider::matching::{NewLimit, new_levels, new_limits, unmatched};
use crate::provider::{Contract, ProvidedLevel, ProviderError};
use crate::serve::permits::permit_loop::PermitLoop;
use rampmeter_protocol::event::{Event as News, LimitNews};
use rampmeter_protocol::status::{ProviderState, ProviderStatus};
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::policy::spec::SpecError;

/// What a provider says.
#[derive(Clone, Debug)]
pub enum ProviderNews {
    /// These are the limits, all of them.
    Limits(Contract),
    /// This is what the buckets hold.
    Levels {
        /// When it was asked: whatever was sent before may be counted in, and nothing that was committed later is.
        asked: Time,
        /// When it was heard: whatever was sent after is not counted in.
        heard: Time,
        /// What they hold.
        levels: Vec<ProvidedLevel>,
    },
    /// It does not answer a question: what is known goes on to count.
    Trouble(ProviderError),
    /// Everything that was last asked was answered.
    Well,
}

/// What a permit loop knows of its provider, for status and metrics.
#[derive(Clone, Debug)]
pub(crate) struct ProviderView {
    kind: &'static str,
    state: ProviderState,
    reason: Option<String>,
    contract_heard: Option<Time>,
    contract: Option<Contract>,
    notes: Vec<String>,
}

impl ProviderView {
    /// A provider of this kind that has not been heard yet.
    pub(crate) fn new(kind: &'static str) -> Self {
        ProviderView {
            kind,
            state: ProviderState::Unknown,
            reason: None,
            contract_heard: None,
            contract: None,
            notes: Vec::new(),
        }
    }

    /// As the protocol has it.
    pub(crate) fn status(&self, now: Time) -> ProviderStatus {
        ProviderStatus {
            kind: self.kind.to_owned(),
            state: self.state,
            reason: self.reason.clone(),
            contract_age_ms: self.contract_heard.map(|heard| now.since(heard).millis()),
            notes: self.notes.clone(),
        }
    }
}

impl PermitLoop {
    pub(crate) fn hear_provider(&mut self, now: Time, news: ProviderNews) {
        match news {
            ProviderNews::Limits(contract) => {
                self.apply_limits(now, &contract);
                if let Some(provider) = &mut self.provider {
                    provider.contract_heard = Some(now);
                    provider.contract = Some(contract);
                }
            }
            ProviderNews::Levels { asked, heard, levels } => self.apply_levels(now, asked, heard, &levels),
            ProviderNews::Trouble(error) => self.note_provider_trouble(&error),
            ProviderNews::Well => self.note_provider_well(),
        }
    }

    /// The limits stay what they are, and people are told why.
    fn note_provider_trouble(&mut self, error: &ProviderError) {
        self.tally.provider_failures.count(error.kind);
        let Some(provider) = &mut self.provider else { return };
        let reason = error.to_string();
        if provider.reason.as_ref() != Some(&reason) {
            let resource = self.core.resource().name();
            tracing::warn!(%resource, reason, "the provider fails; the known limits go on to count");
        }
        provider.state = ProviderState::Failing;
        provider.reason = Some(reason);
    }

    fn note_provider_well(&mut self) {
        let Some(provider) = &mut self.provider else { return };
        if provider.state == ProviderState::Failing {
            tracing::info!(resource = %self.core.resource().name(), "the provider answers again");
        }
        provider.state = ProviderState::Ok;
        provider.reason = None;
    }

    /// Takes the last contract for what counts, after limits have changed: what the upstream itself says of its limits is true whatever
    /// people say.
    pub(crate) fn keep_to_contract(&mut self, now: Time) {
        if let Some(contract) = self.provider.as_mut().and_then(|provider| provider.contract.take()) {
            self.apply_limits(now, &contract);
            self.provider.iter_mut().for_each(|provider| provider.contract = Some(contract.clone()));
        }
    }

    /// Takes the contract for what counts. Limits take the capacity that it gives for their unit and period; those it does not
    /// speak of stay.
    fn apply_limits(&mut self, now: Time, contract: &Contract) {
        let limits = self.core.resource().limits();
        let changed = new_limits(limits, contract);
        let missing =
            unmatched(limits, contract).into_iter().map(|limit| format!("no limit is configured for {limit}"));
        let mut notes: Vec<String> = missing.chain(contract.notes.iter().cloned()).collect();
        if let Err(refused) = self.change_limits(now, &changed) {
            notes.push(format!("the contract can't count: {refused}"));
        }
        let Some(provider) = &mut self.provider else { return };
        if provider.notes != notes {
            tracing::warn!(resource = %self.core.resource().name(), ?notes, "the contract differs from the limits that count");
            provider.notes = notes;
        }
    }

    /// Goes on under limits of these capacities.
    fn change_limits(&mut self, now: Time, changed: &[NewLimit]) -> Result<(), SpecError> {
        if changed.is_empty() {
            return Ok(());
        }
        let mut spec = self.core.resource().spec().clone();
        for new in changed {
            tracing::warn!(resource = %spec.name, "the contract says that {new}; that counts from now on");
            spec.limits
                .iter_mut()
                .filter(|limit| limit.name == new.name)
                .for_each(|limit| limit.capacity = new.capacity);
        }
        let resource = Resource::new(&spec)?;
        self.handle(now, Event::Limits(Box::new(resource)));
        self.tell_limits(changed);
        Ok(())
    }

    fn tell_limits(&mut self, changed: &[NewLimit]) {
        let limits = changed.iter().map(|new| LimitNews {
            name: new.name.clone(),
            capacity: new.capacity.units(),
            period_ms: new.period.millis(),
        });
        let event = News::Limits { limits: limits.collect(), epoch: Some(self.core.epoch()) };
        self.publish_event(&event);
    }

    /// Takes what the provider's buckets held between `asked` and `heard` for a reading of ours.
    fn apply_levels(&mut self, now: Time, asked: Time, heard: Time, levels: &[ProvidedLevel]) {
        let resource = self.core.resource();
        let told = new_levels(resource.limits(), levels);
        tracing::debug!(resource = %resource.name(), took = %heard.since(asked), ?told, "the provider's levels");
        let told = told.into_iter().filter_map(|level| Some((resource.limit(&level.name)?, level.remaining)));
        let levels = told.collect();
        self.handle(now, Event::Levels { asked, heard, levels });
    }
}
