package rampmeter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// settleTime is the longest time that a repeated call waits until its settle was taken.
const settleTime = time.Second

// Run gets a permit, calls, and settles with the status and the headers of the answer. After a 429 all
// workers pause, and the call is repeated with a new permit, three times or as Repeats says; then the
// caller gets the API's own answer, as it does at once if no wait mends the 429. An error without a
// connection gives the permit back; after any other one the call counts as made.
//
// Where a limit counts calls in flight, the call ends with the body of its answer: read or close it.
func (r *Resource) Run(
	ctx context.Context, cost Cost, call func() (*http.Response, error), options ...Option,
) (*http.Response, error) {
	return r.run(ctx, r.ask(ctx, "wait", cost, options), func() (Outcome, *http.Response, error) {
		response, err := call()
		return OutcomeOf(response), response, err
	})
}

// RunOutcome does what Run does for calls that return no http.Response: the outcome tells how the call
// went, also beside an error.
func (r *Resource) RunOutcome(ctx context.Context, cost Cost, call func() (Outcome, error), options ...Option) error {
	_, err := r.run(ctx, r.ask(ctx, "wait", cost, options), func() (Outcome, *http.Response, error) {
		outcome, err := call()
		return outcome, nil, err
	})
	return err
}

func (r *Resource) run(
	ctx context.Context, want *ask, call func() (Outcome, *http.Response, error),
) (last *http.Response, err error) {
	for repeats := want.repeats; ; repeats-- {
		permit, missing := r.account.obtain(ctx, want)
		if refused := (*Refused)(nil); errors.As(missing, &refused) {
			refused.Response, refused.Cause = last, err
		}
		if missing != nil {
			return nil, missing
		}
		var outcome Outcome
		outcome, last, err = call()
		switch {
		case outcome.Status == http.StatusTooManyRequests && repeats > 0 && !finalCode.MatchString(outcome.Code):
			permit.Settle(outcome)
			keep(last)
			// Schedulers have to pause before the call is asked for again.
			told, cancel := context.WithTimeout(ctx, settleTime)
			_ = r.account.outbox.settled(told)
			cancel()
			continue
		case outcome.Status == 0 && wasUnsent(err):
			permit.GiveBack()
		default:
			settleAtEnd(permit, outcome, last)
		}
		return last, err
	}
}

// keep reads the beginning of an answer's body and closes it, so that its connection can be used again.
func keep(response *http.Response) {
	if response != nil && response.Body != nil {
		begun, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
		response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(begun))
	}
}

// settleAtEnd settles a call with its answer; if a limit counts calls in flight, at the end of its body.
func settleAtEnd(permit *Permit, outcome Outcome, response *http.Response) {
	isOver := response == nil || response.Body == nil || response.Body == http.NoBody || outcome.Status == http.StatusSwitchingProtocols
	if isOver || !permit.HasPlace() {
		permit.Settle(outcome)
		return
	}
	response.Body = &watchedBody{response.Body, permit, outcome}
}

// watchedBody settles a call when its body ends or is closed.
type watchedBody struct {
	io.ReadCloser
	permit  *Permit
	outcome Outcome
}

func (b *watchedBody) Read(part []byte) (int, error) {
	count, err := b.ReadCloser.Read(part)
	if err != nil {
		b.permit.Settle(b.outcome)
	}
	return count, err
}

func (b *watchedBody) Close() error {
	b.permit.Settle(b.outcome)
	return b.ReadCloser.Close()
}

// WithPermits returns a transport of which each request does what Run does with one, by base or by
// http.DefaultTransport. A request whose body cannot be sent again (it has no GetBody) is not
// repeated. A Timeout of the http.Client counts the wait for the permit; without time for that the
// request fails at once. Each redirect that the client follows is a request with a permit of its own.
func (r *Resource) WithPermits(base http.RoundTripper, options ...Option) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &permits{&Resource{r.account, append(r.options[:len(r.options):len(r.options)], options...)}, base}
}

type permits struct {
	*Resource
	base http.RoundTripper
}

// RoundTrip sends a request with a permit.
func (p *permits) RoundTrip(sent *http.Request) (*http.Response, error) {
	want, isNeeded := p.ask(sent.Context(), "wait", nil, nil), true
	if want.asking != nil {
		var more []Option
		more, isNeeded = want.asking(sent)
		want = p.ask(sent.Context(), "wait", nil, more)
	}
	if !isNeeded {
		return p.base.RoundTrip(sent)
	}
	body := sent.Body
	if body != nil && body != http.NoBody && sent.GetBody == nil {
		want.repeats = 0
	}
	response, err := p.run(sent.Context(), want, func() (_ Outcome, response *http.Response, err error) {
		again := sent.Clone(sent.Context())
		if again.Body = body; body == nil && sent.GetBody != nil {
			again.Body, err = sent.GetBody()
		}
		if body = nil; err == nil {
			response, err = p.base.RoundTrip(again)
		}
		return OutcomeOf(response), response, err
	})
	if body != nil { // A transport closes what it does not send, too.
		body.Close()
	}
	return response, err
}
