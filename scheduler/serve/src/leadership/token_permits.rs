//! Permits for requests to a token endpoint, asked over NATS like a worker's: another scheduler may lead the resource.

use crate::context::ProcessContext;
use rampmeter_account::token_permits::{TokenPermit, TokenPermits, WantedPermit};
use rampmeter_protocol::answer::Answer;
use rampmeter_protocol::code::Remedy;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::settle::{Headers, Report, Response, Settle};
use rampmeter_protocol::time::{Span, Time};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long to try for one permit. A limit for tokens allows several in a minute.
const PERMIT_TIMEOUT: Span = Span::from_secs(60);
/// How long to wait for an answer. A waiting request is repeated under its id.
const ANSWER: Duration = Duration::from_secs(2);
/// The pause while no scheduler leads the resource of the permits.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Clone, Debug)]
struct Asker {
    context: ProcessContext,
    resource: Name,
}

/// Returns permits of `resource`. A task requests them until the returned value is dropped.
pub(crate) fn of(context: &ProcessContext, resource: &Name) -> TokenPermits {
    let asker = Asker { context: context.clone(), resource: resource.clone() };
    let (permits, mut wanted) = TokenPermits::channel();
    tokio::spawn(async move {
        while let Some(wanted) = wanted.recv().await {
            asker.serve(wanted).await;
        }
    });
    permits
}

impl Asker {
    /// Obtains a permit, and settles it when its request has been answered.
    async fn serve(&self, mut wanted: WantedPermit) {
        let id = PermitId::secret(rand::random());
        let granted = tokio::select! {
            granted = self.permit(&id) => granted,
            () = wanted.closed() => Err("it is not wanted any more".to_owned()),
        };
        let (permit, status): (TokenPermit, _) = oneshot::channel();
        let is_granted = granted.is_ok();
        match wanted.send(granted.map(|()| permit)) {
            Ok(()) if is_granted => self.settle(used(id, status.await.ok())).await,
            Ok(()) | Err(_) => self.settle(Settle::unused(id)).await,
        }
    }

    /// Waits for the start of a permit under this id.
    async fn permit(&self, id: &PermitId) -> Result<(), String> {
        let clock = self.context.clock;
        let (began, mut why) = (clock.now(), "no scheduler answers".to_owned());
        while clock.now().since(began) < PERMIT_TIMEOUT {
            let pause = match self.ask(id, began).await {
                Some(Asked::Granted(delay)) => {
                    tokio::time::sleep(delay).await;
                    return Ok(());
                }
                Some(Asked::Later(pause, reason)) => {
                    why = reason;
                    pause
                }
                Some(Asked::Never(reason)) => return Err(reason),
                None => PAUSE,
            };
            tokio::time::sleep(pause).await;
        }
        Err(format!("`{}`: {why}", self.resource))
    }

    async fn ask(&self, id: &PermitId, began: Time) -> Option<Asked> {
        let ProcessContext { client, subjects, clock, .. } = &self.context;
        let age_ms = Millis::from(clock.now().since(began));
        let request = PermitRequest { id: Some(id.clone()), mode: Mode::Wait, age_ms, ..PermitRequest::default() };
        let payload = serde_json::to_vec(&request).expect("a request has a JSON form");
        let asking = client.request(subjects.permit(&self.resource), payload.into());
        let answer = tokio::time::timeout(ANSWER, asking).await.ok()?.ok()?;
        Some(match serde_json::from_slice::<Answer>(&answer.payload).ok()? {
            Answer::Granted(granted) => Asked::Granted(span(granted.delay_ms)),
            Answer::Queued(_) | Answer::Settled { .. } => return None,
            Answer::Refused(refused) if refused.code.remedy() == Remedy::Repeat => return None,
            Answer::Refused(refused) => {
                let reason = refused.message.to_string();
                match refused.retry_after_ms {
                    Some(after) if after <= PERMIT_TIMEOUT.millis() => Asked::Later(span(after), reason),
                    Some(_) | None => Asked::Never(reason),
                }
            }
        })
    }

    async fn settle(&self, settle: Settle<'static>) {
        let payload = serde_json::to_vec(&settle).expect("a settle has a JSON form");
        let ProcessContext { client, subjects, .. } = &self.context;
        client.publish(subjects.settle(&self.resource), payload.into()).await.ok();
    }
}

enum Asked {
    Granted(Duration),
    Later(Duration, String),
    Never(String),
}

fn used(id: PermitId, status: Option<u16>) -> Settle<'static> {
    let response = |status| Response { status, headers: Headers::default(), quota_spent: false, code: None };
    Settle::reported(id, Report { response: status.map(response), ..Report::default() })
}

fn span(millis: f64) -> Duration {
    Duration::try_from_secs_f64(millis / 1e3).unwrap_or_default()
}
