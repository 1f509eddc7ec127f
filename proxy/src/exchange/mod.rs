//! One request, from its head to the head of its response.
//!
//! 1. The request is checked, and its route determines the permit to request.
//! 2. It is held until its permit starts, while the proxy reads on to notice a client that
//!    disconnects. A dropped request gives its permit back.
//! 3. It is sent. The permit of a request that certainly did not leave is given back.
//! 4. A 429 is reported to the scheduler. A request with a kept body is held again, at its age.
//! 5. Any other response is streamed to the client, and settled at its end.

pub(super) mod failure;
pub(super) mod outgoing;
pub(super) mod requested_permit;
pub(super) mod response;
pub(super) mod trace;

use crate::answer::AnswerReader;
use crate::checked_stream::closes;
use crate::credential::AppliedCredential;
use crate::headers::{self, ClientInfo, Pseudonym};
use crate::metrics::Metrics;
use crate::models::models;
use crate::money::CallPrice;
use crate::pool::request_body::{BodyMemory, RequestBody};
use crate::pool::{CallError, Pool};
use crate::prompts::{Prompt, Prompts};
use crate::settings::{PriceFn, Settings};
use crate::tokens::{RequestReader, RequestReading, Tokens};
use bytes::Bytes;
use failure::Failure;
use http::header::{ACCEPT_ENCODING, CONNECTION, HOST, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use outgoing::Outgoing;
use rampmeter_listener::BrowserGuard;
use rampmeter_listener::tls::ClientName;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::log_throttle::LogThrottle;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::trace_context::TraceContext;
use rampmeter_worker_sdk::{Call, Resource};
use requested_permit::RequestedPermit;
use response::{Relay, ResponseBody, Silence, UnsettledCall};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SetOnce};
use trace::{Held, RequestTrace};
use tracing::Instrument;

/// Most sendings of one request. Each 429 pauses the whole fleet, so that more are useless.
const MAX_SENDINGS: u32 = 16;
/// How long a body may wait to be read. Few may be read at once, and each takes a moment.
const PRICED_WITHIN: Duration = Duration::from_secs(5);
const WAIT_MS: HeaderName = HeaderName::from_static("x-rampmeter-wait-ms");
/// OpenAI and Anthropic send `false` if a retry after a 429 is useless.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) settings: Settings,
    pub(crate) guard: BrowserGuard,
    pub(crate) resource: Resource,
    pub(crate) pool: Pool,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) pseudonym: Pseudonym,
    pub(crate) memory: BodyMemory,
    pub(crate) held: Semaphore,
    pub(crate) in_flight: Arc<Semaphore>,
    pub(crate) pricing: Semaphore,
    /// What vendors cache of prompts.
    pub(crate) prompts: Arc<Mutex<Prompts>>,
    /// Logs bodies whose cost cannot be computed.
    pub(crate) unpriced: Mutex<LogThrottle>,
    /// Set once held requests are refused because the proxy stops.
    pub(crate) over: Arc<SetOnce<()>>,
    pub(crate) clock: Clock,
}

#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    pub(crate) is_encrypted: bool,
    /// The name in the client's certificate, if it presented one.
    pub(crate) name: Option<ClientName>,
}

struct CheckedRequest {
    asked_in: Option<TraceContext>,
    requested: RequestedPermit,
    /// The tokens that it may take, if tokens count.
    tokens: Option<Tokens>,
    price: Option<CallPrice>,
    prompt: Prompt,
    outgoing: Outgoing,
    begun: Time,
}

struct Ready<'a> {
    call: Call,
    place: OwnedSemaphorePermit,
    credential: Option<AppliedCredential<'a>>,
    account: Option<String>,
}

impl Exchange {
    pub(crate) async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Response<ResponseBody> {
        let begun = self.clock.now();
        let (version, closes) = (request.version(), closes(request.headers()));
        let (mut head, body) = request.into_parts();
        if let Some(name) = peer.name.clone() {
            head.extensions.insert(name);
        }
        let mut response = match self.check(head, body, &peer, begun) {
            Ok((checked, trace)) => self.hold(checked, trace).await,
            Err(failure) => self.refused("-", None, &failure),
        };
        if version == Version::HTTP_2 {
            response.headers_mut().remove(CONNECTION);
        } else if closes {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn hold(&self, checked: CheckedRequest, mut trace: RequestTrace) -> Response<ResponseBody> {
        let (route, class) = (checked.requested.route.clone(), checked.requested.class.clone());
        let answered = match self.held.try_acquire() {
            Ok(_place) => {
                let held = self.metrics.hold();
                let answered = Box::pin(self.run(checked)).instrument(trace.for_log()).await;
                held.answered();
                answered
            }
            Err(_) => Err(Failure::TooManyHeld),
        };
        let outcome = answered.as_ref().map(|(_, held)| *held).map_err(Failure::code);
        let refused = |failure| trace.for_log().in_scope(|| self.refused(&route, class.as_deref(), &failure));
        let response = answered.map_or_else(refused, |(response, _)| response);
        trace.answered(route, response.status().as_u16(), outcome);
        response
    }

    /// Checks a request and turns it into one to the upstream.
    fn check(
        &self,
        head: Parts,
        body: Incoming,
        peer: &Peer,
        begun: Time,
    ) -> Result<(CheckedRequest, RequestTrace), Failure> {
        if head.method == Method::CONNECT {
            return Err(Failure::Tunnel);
        }
        if self.pseudonym.is_in(&head.headers) {
            return Err(Failure::Loop);
        }
        if head.headers.get_all(HOST).iter().count() > 1 {
            return Err(Failure::Unclear("`host` is there more than once".to_owned()));
        }
        self.check_page(&head, peer.address)?;
        let requested = RequestedPermit::of(&head, peer.address, &self.settings.asking).map_err(Failure::Unclear)?;
        let target = self.settings.upstream.target(&head.uri);
        let target = target.ok_or_else(|| Failure::Unclear("the target of the request has no path".to_owned()))?;
        let most = self.settings.asking.kept_bytes(&self.settings.bounds);
        let body = RequestBody::new(body, most, self.memory.clone(), self.clock);
        let mut headers = self.headers(&head, peer);
        let spans = self.settings.spans.as_ref();
        let trace = RequestTrace::begin(spans, &head.method, &mut headers, self.resource.name());
        let outgoing = Outgoing { method: head.method, target, headers, body };
        Ok((
            CheckedRequest {
                asked_in: trace.context(),
                requested,
                tokens: None,
                price: None,
                prompt: Prompt::default(),
                outgoing,
                begun,
            },
            trace,
        ))
    }

    /// Refuses requests that another site's page may have sent. A whole URL over HTTP/1 comes from a program that uses
    /// this as its HTTP proxy, whatever host it contains: browsers send none to a server.
    fn check_page(&self, head: &Parts, peer: IpAddr) -> Result<(), Failure> {
        let host = match head.uri.authority() {
            Some(host) if head.version < Version::HTTP_2 => Some(host.clone()),
            _ => self.guard.host(&head.uri, head.version, &head.headers, peer)?,
        };
        Ok(self.guard.check_page(host.as_ref(), &head.headers)?)
    }

    fn headers(&self, head: &Parts, peer: &Peer) -> HeaderMap {
        let wanted = &self.settings.headers;
        let client = wanted.forwarded.then(|| ClientInfo {
            address: peer.address,
            is_encrypted: peer.is_encrypted,
            is_trusted: wanted.trusted_proxies.iter().any(|network| network.contains(&peer.address)),
        });
        let mut headers = head.headers.clone();
        headers::forward(&mut headers, head.version, client, &self.pseudonym);
        if self.settings.asking.counts_tokens() {
            // Usage cannot be read in an answer that is compressed.
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let authority = head.uri.authority().and_then(|authority| HeaderValue::try_from(authority.as_str()).ok());
        match (wanted.keep_host, authority) {
            (true, Some(authority)) => drop(headers.insert(HOST, authority)),
            (true, None) => {}
            // If this header is missing, hyper's client sets it to the upstream's host.
            (false, _) => drop(headers.remove(HOST)),
        }
        headers
    }

    /// Sends the request until the response is not a 429. Returns it, and how the request was held.
    async fn run(&self, checked: CheckedRequest) -> Result<(Response<ResponseBody>, Held), Failure> {
        let checked = &self.estimated(checked).await?;
        let mut sendings = 0;
        loop {
            let Ready { call, place, credential, account } = self.permit(checked).await?;
            let (started, waited) = (self.clock.now(), self.clock.now().since(checked.begun));
            let (response, call) = self.call(&checked.outgoing, call, credential.as_ref()).await?;
            self.metrics.first_bytes.observe(self.clock.now().since(started).secs());
            sendings += 1;
            let estimate =
                checked.tokens.map(|tokens| (self.settings.asking.tokens.clone().unwrap_or_default(), tokens));
            let answer = AnswerReader::new(response.status().as_u16(), response.headers(), estimate)
                .with_price(checked.price.clone())
                .with_codes(self.settings.asking.codes.clone());
            let mut unsettled =
                UnsettledCall::new(call, &response, answer, (checked.prompt, self.prompts.clone()), place, self.clock);
            let (mut response, mut seen) = (response, Bytes::new());
            let is_refused = response.status() == StatusCode::UNAUTHORIZED
                && !checked.requested.names_account()
                && account.is_some_and(|account| self.settings.credentials.refuse(&account, self.clock.now()));
            if is_refused && checked.outgoing.body.can_be_sent() && sendings < MAX_SENDINGS {
                unsettled.settle(true);
                self.metrics.repeated.inc();
                continue;
            }
            if is_worth_repeating(&response) && checked.outgoing.body.can_be_sent() && sendings < MAX_SENDINGS {
                seen = unsettled.peek(response.body_mut()).await;
                if !unsettled.is_final() {
                    unsettled.settle(true);
                    self.metrics.repeated.inc();
                    continue;
                }
            }
            self.metrics.began(checked.requested.class.as_deref(), waited);
            let held = Held { wait: waited, sendings };
            self.log(checked, response.status(), held);
            return Ok((self.relayed(response.map(|body| (seen, body)), unsettled, waited), held));
        }
    }

    /// Reads the body, and adds the labels and the cost that it determines.
    async fn estimated(&self, checked: CheckedRequest) -> Result<CheckedRequest, Failure> {
        let asking = &self.settings.asking;
        if !asking.reads_bodies() {
            return Ok(checked);
        }
        let CheckedRequest { asked_in, requested, outgoing, begun, .. } = checked;
        let path =
            asking.path(outgoing.target.path()).map_err(|error| Failure::Unclear(error.to_string()))?.into_owned();
        let mut reader = RequestReader::new(&outgoing.method, &path, asking.counts_tokens(), &asking.body_labels);
        let reading = outgoing.body.read(|piece| reader.read(piece));
        let read = tokio::time::timeout(self.settings.times.first_byte.duration(), reading).await;
        let is_whole = read.map_err(|_| CallError::SlowClient)?;
        if outgoing.body.has_failed() {
            return Err(Failure::BrokenBody);
        }
        let reading = reader.end(is_whole);
        let price = self.price(&requested, &outgoing, &reading, &path)?;
        let RequestReading { labels, tokens, is_understood, prompt, .. } = reading;
        let kept = self.prompts.lock().unwrap_or_else(PoisonError::into_inner).kept(prompt, self.clock.now());
        let tokens = tokens.map(|tokens| tokens.without_kept(kept));
        if !is_understood {
            self.not_understood(&requested.route, "it is no JSON, or too long".to_owned())?;
        }
        let mut requested = requested.with_labels(&asking.body_labels, &labels, &path).map_err(Failure::Unclear)?;
        if let Some((units, tokens)) = asking.tokens.as_ref().zip(tokens) {
            requested = requested.with_tokens(units, tokens);
        }
        if let Some(money) = asking.money.as_ref().filter(|money| !requested.states(&money.unit)) {
            let most = price.as_ref().map_or(Amount::ZERO, CallPrice::most);
            requested = requested.with_price(&[(money.unit.to_string(), most.units())]);
        }
        let requested = self.priced(requested, &outgoing, path, is_whole).await?;
        Ok(CheckedRequest { asked_in, requested, tokens, price, prompt, outgoing, begun })
    }

    /// Finds the price of the call's model, if limits count money. A call without a price is refused,
    /// unless its route states what it costs: no budget would hold it.
    fn price(
        &self,
        requested: &RequestedPermit,
        outgoing: &Outgoing,
        reading: &RequestReading,
        path: &str,
    ) -> Result<Option<CallPrice>, Failure> {
        let Some(money) = &self.settings.asking.money else { return Ok(None) };
        if outgoing.method != Method::POST || models().is_free(path) || requested.states(&money.unit) {
            return Ok(None);
        }
        // A path that names a model counts, whatever the body says.
        let model = models().model_in(path).or(reading.model.as_deref());
        let price = match reading.tokens {
            Some(_) if reading.is_understood => money.of(model, reading.demand),
            Some(_) => Err("it is no JSON, or too long".to_owned()),
            None => Err(format!("its tokens are not known; a route may state its cost in `{}`", money.unit)),
        };
        price.map(Some).map_err(Failure::NotUnderstood)
    }

    /// Adds the price by the body, or else the cost that its route states, or else the default.
    async fn priced(
        &self,
        requested: RequestedPermit,
        outgoing: &Outgoing,
        path: String,
        is_whole: bool,
    ) -> Result<RequestedPermit, Failure> {
        let Some(PriceFn { compute, otherwise }) = self.settings.asking.price.clone() else { return Ok(requested) };
        let turn = tokio::time::timeout(PRICED_WITHIN, self.pricing.acquire()).await;
        let _turn = turn.map_err(|_| Failure::Unpriced)?;
        let (method, body) = (outgoing.method.clone(), outgoing.body.kept());
        let computing = tokio::task::spawn_blocking(move || (compute.0)(&method, &path, &body));
        match computing.await.unwrap_or_else(|_| Err("the computation has failed".to_owned())) {
            Ok(price) => Ok(requested.with_price(&price)),
            Err(why) => {
                self.not_understood(&requested.route, if is_whole { why } else { "it is too long".to_owned() })?;
                Ok(if requested.has_cost() { requested } else { requested.with_price(&otherwise) })
            }
        }
    }

    /// Counts and logs a body without a cost, and may refuse it. Only the client sees `why`, which may quote the body.
    fn not_understood(&self, route: &str, why: String) -> Result<(), Failure> {
        self.metrics.unpriced.inc();
        let admitted = self.unpriced.lock().unwrap_or_else(PoisonError::into_inner).admit(self.clock.now(), "unpriced");
        if let Some(left_out) = admitted {
            let resource = self.resource.name();
            tracing::warn!(resource, route, left_out, "a body does not tell what its request costs");
        }
        if self.settings.asking.refuses_unpriced { Err(Failure::NotUnderstood(why)) } else { Ok(()) }
    }

    /// Waits for a permit, a place and a credential, and begins the call.
    async fn permit(&self, checked: &CheckedRequest) -> Result<Ready<'_>, Failure> {
        let waited = self.clock.now().since(checked.begun);
        let left = self.settings.times.max_wait.saturating_sub(waited);
        let acquire = checked.requested.acquire(&self.resource, waited, left);
        // A request that names its account gets that one's answer.
        let left_out = match checked.requested.names_account() {
            true => Vec::new(),
            false => self.settings.credentials.left_out(self.clock.now()),
        };
        let acquire = left_out.iter().fold(acquire, |acquire, account| acquire.not(account));
        let acquire = match checked.asked_in {
            Some(span) => acquire.traceparent(&span.to_string()),
            None => acquire,
        };
        let granted = async {
            let permit = acquire.await?;
            let place = self.place(left).await?;
            let account = permit.account().map(str::to_owned);
            let credential =
                self.settings.credentials.applied(account.as_deref()).await.map_err(|_| Failure::NoCredential)?;
            // The permit may have lapsed meanwhile.
            Ok(Ready { call: permit.ready().await?.begin(), place, credential, account })
        };
        tokio::select! {
            granted = granted => granted,
            _broken = checked.outgoing.body.broken() => Err(Failure::BrokenBody),
            &() = self.over.wait() => Err(Failure::Stopping),
        }
    }

    async fn place(&self, longest: Span) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(place) = self.in_flight.clone().try_acquire_owned() {
            return Ok(place);
        }
        let place = tokio::time::timeout(longest.duration(), self.in_flight.clone().acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or(Failure::NoPlace)
    }

    async fn call(
        &self,
        outgoing: &Outgoing,
        call: Call,
        credential: Option<&AppliedCredential<'_>>,
    ) -> Result<(Response<Incoming>, Call), Failure> {
        let mut answered = self.pool.call(outgoing.request(credential), &outgoing.body, false).await;
        let was_sent = !matches!(answered, Err(CallError::NoConnection(_)));
        if matches!(answered, Err(CallError::Ending(_))) && outgoing.is_repeatable() {
            tracing::debug!("a call met the end of a kept connection, and is made on a new one");
            answered = self.pool.call(outgoing.request(credential), &outgoing.body, true).await;
        }
        match answered {
            Ok(response) => {
                if let (StatusCode::UNAUTHORIZED, Some(credential)) = (response.status(), credential) {
                    credential.refused();
                }
                Ok((response, call))
            }
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "a call has no answer");
                if !was_sent {
                    call.give_back();
                }
                Err(error.into())
            }
        }
    }

    fn relayed(
        &self,
        response: Response<(Bytes, Incoming)>,
        unsettled: UnsettledCall,
        waited: Span,
    ) -> Response<ResponseBody> {
        let (mut head, (seen, body)) = response.into_parts();
        headers::strip(&mut head.headers);
        head.version = Version::HTTP_11;
        if self.settings.headers.tell_wait {
            head.headers.insert(WAIT_MS, HeaderValue::from(waited.duration().as_millis() as u64));
        }
        head.extensions = http::Extensions::new();
        let silence = Silence::of_at_most(self.settings.times.next_byte);
        Response::from_parts(head, ResponseBody::Left(Box::new(Relay::new(seen, body, unsettled, silence))))
    }

    fn refused(&self, route: &str, class: Option<&str>, failure: &Failure) -> Response<ResponseBody> {
        self.metrics.answered(route, class, failure.code());
        tracing::debug!(resource = self.resource.name(), route, class, code = failure.code(), %failure, "not forwarded");
        failure.response().map(ResponseBody::Right)
    }

    /// Logs a request without its path, query and headers, which may hold secrets.
    fn log(&self, checked: &CheckedRequest, status: StatusCode, Held { wait, sendings }: Held) {
        let (route, class) = (&*checked.requested.route, checked.requested.class.as_deref());
        self.metrics.answered(route, class, "forwarded");
        let (resource, method, wait_ms) = (self.resource.name(), &checked.outgoing.method, wait.millis());
        tracing::debug!(resource, %method, route, class, wait_ms, sendings, status = status.as_u16(), "forwarded");
    }
}

fn is_worth_repeating(response: &Response<Incoming>) -> bool {
    let says_no = response.headers().get(SHOULD_RETRY).is_some_and(|value| value == "false");
    response.status() == StatusCode::TOO_MANY_REQUESTS && !says_no
}
