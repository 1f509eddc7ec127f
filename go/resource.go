package rampmeter

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"time"
)

const (
	// defaultRepeats is how often a call is repeated: all workers pause after a 429, so that a second
	// one in a row is rare.
	defaultRepeats = 3
	// atOnce is how long a request for now or never may go without an answer.
	atOnce millis = 5_000
	// grace is how much later than the longest wait an answer may come.
	grace millis = 250
)

// Cost has amounts by unit. Without a cost a call takes one of requests.
type Cost map[string]float64

// Requests is a cost of so many requests.
func Requests(count float64) Cost { return Cost{"requests": count} }

// Option says what a request for a permit needs beside its cost. Later options replace earlier ones.
type Option func(*ask)

type ask struct {
	request
	since, maxWait, deadline millis
	repeats                  int
	asking                   func(*http.Request) ([]Option, bool)
}

// Costs is the cost of the calls of a Resource or of WithPermits, if a call does not have its own.
func Costs(cost Cost) Option { return func(a *ask) { a.Cost, a.Price = cost, nil } }

// Price has the scheduler compute the cost of a call from the body of the request to the upstream,
// if the resource is configured for that.
func Price(kind, api string, body any) Option {
	price := map[string]any{"kind": kind, "api": api, "body": body}
	return func(a *ask) { a.Cost, a.Price = nil, price }
}

// Class is the priority class of the call; the resource's default without it.
func Class(name string) Option { return func(a *ask) { a.Class = name } }

// Label is a label that limits match on and key by, beside those of the resource.
func Label(key, value string) Option { return func(a *ask) { a.Labels[key] = value } }

// Not names the accounts that may not make the call, such as one that was answered 401.
func Not(accounts ...string) Option { return func(a *ask) { a.Not = accounts } }

// Or adds another way to make the call, such as a smaller model: its cost, or nil for that of the
// request, and labels in place of those of the request; an empty one leaves a label out. The first way
// that starts within what it is Worth is taken, or else the one that starts earliest. Permit.Way tells
// which.
func Or(cost Cost, labels map[string]string) Option {
	return func(a *ask) { a.AnyOf = append(a.AnyOf, way{Cost: cost, Labels: labels}) }
}

// Worth is how long a start in the way that was described last is worth waiting for.
func Worth(wait time.Duration) Option {
	return func(a *ask) {
		last := &a.way
		if count := len(a.AnyOf); count > 0 {
			last = &a.AnyOf[count-1]
		}
		last.ElseAfter = millisOf(wait)
	}
}

// MaxWait is the longest time from now to the start of the call, over all repeats; 0 for now or
// never. Without it there is no bound but the deadline of the context.
func MaxWait(longest time.Duration) Option { return func(a *ask) { a.maxWait = millisOf(longest) } }

// Deadline is the latest start of the call.
func Deadline(latest time.Time) Option {
	return func(a *ask) { a.deadline = math.Min(a.deadline, now()+millisOf(time.Until(latest))) }
}

// Age is how long the call has waited elsewhere: it takes its place in the queue accordingly.
func Age(waited time.Duration) Option { return func(a *ask) { a.since = now() - millisOf(waited) } }

// Repeats is how often Run and WithPermits repeat a call that is answered 429; 3 by default.
func Repeats(most int) Option { return func(a *ask) { a.repeats = most } }

// Asking says what each request of WithPermits needs, beside the other options. With false the
// request needs no permit.
func Asking(needs func(*http.Request) (options []Option, needed bool)) Option {
	return func(a *ask) { a.asking = needs }
}

// Resource is one account of a rate-limited API.
type Resource struct {
	account *account
	options []Option
}

// Acquire waits for a permit and for its start. Make the call at once, and settle the permit. If the
// context ends first, the request leaves the queue and is charged for nothing. A deadline of the
// context bounds the wait as Deadline does. A nil cost is one request.
func (r *Resource) Acquire(ctx context.Context, cost Cost, options ...Option) (*Permit, error) {
	return r.account.obtain(ctx, r.ask(ctx, "wait", cost, options))
}

// TryAcquire returns a permit for now, or a NotInTime that says when to come back.
func (r *Resource) TryAcquire(ctx context.Context, cost Cost, options ...Option) (*Permit, error) {
	return r.account.obtain(ctx, r.ask(ctx, "allow", cost, options))
}

// Reserve returns a permit for a later start, at once. Delay says how long until then, and Ready
// waits. Over HTTP nothing tells of a pause that the upstream asks for meanwhile; Acquire minds it.
func (r *Resource) Reserve(ctx context.Context, cost Cost, options ...Option) (*Permit, error) {
	return r.account.obtain(ctx, r.ask(ctx, "reserve", cost, options))
}

// ask gathers the options of a request, and begins its wait.
func (r *Resource) ask(ctx context.Context, mode string, cost Cost, options []Option) *ask {
	a := &ask{since: now(), maxWait: forever, deadline: forever, repeats: defaultRepeats}
	a.Labels = map[string]string{}
	for _, option := range r.options {
		option(a)
	}
	if cost != nil {
		Costs(cost)(a)
	}
	for _, option := range options {
		option(a)
	}
	if ends, isBound := ctx.Deadline(); isBound {
		Deadline(ends)(a)
	}
	if a.Mode = mode; a.maxWait <= 0 || mode == "allow" {
		a.Mode, a.maxWait = "allow", atOnce
	}
	a.deadline = math.Min(a.deadline, now()+a.maxWait)
	return a
}

// obtain asks for a permit. The mutex is held while the session decides, and not while it waits.
func (a *account) obtain(ctx context.Context, want *ask) (permit *Permit, err error) {
	want.Cost, err = exact(want.Cost)
	for index := range want.AnyOf {
		if cost := &want.AnyOf[index].Cost; err == nil {
			*cost, err = exact(*cost)
		}
	}
	for _, why := range []error{a.err, ctx.Err(), err} {
		if why != nil {
			return nil, why
		}
	}
	s := newSession(want, a.schedulers)
	s.send = func(message request) (reply, error) {
		a.mutex.Unlock()
		defer a.mutex.Lock()
		body, err := json.Marshal(message)
		if err != nil {
			return reply{}, invalid(err.Error())
		}
		return a.client.post(ctx, "/v1/permit/"+a.name, body, want.deadline+grace)
	}
	s.pause = func(until millis) error {
		a.mutex.Unlock()
		defer a.mutex.Lock()
		return pause(ctx, until)
	}
	s.giveBack = func(id string) { a.outbox.push(settle{ID: id}) }
	a.mutex.Lock()
	defer a.mutex.Unlock()
	granted := s.permit()
	if granted.err != nil {
		return nil, granted.err
	}
	return newPermit(a, want, granted), nil
}
