package rampmeter

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"runtime"
	"sync"
	"time"
)

const (
	// renewals is how often a lease is renewed before it ends: two may be lost.
	renewals = 3
	// minRenewal is the shortest interval of renewals, retryRenewal the pause before a lost one is
	// repeated, and maxRenewal how long one may go without an answer.
	minRenewal, retryRenewal, maxRenewal millis = 50, 125, 1_000
)

// Outcome tells how a call went. Every part may be left out: the call then counts as made, at its
// estimate.
type Outcome struct {
	Status int
	// Header has the headers of the answer. Only those that speak of limits leave the process.
	Header http.Header
	// Cost is the actual cost. A unit that is left out keeps its estimate.
	Cost Cost
	// QuotaSpent says that the body tells of a spent quota, such as a month's.
	QuotaSpent bool
	// Code is that of the error in the body. It tells a spent quota from a forbidden call, and much
	// else.
	Code string
}

// OutcomeOf returns the outcome that an answer tells. It reads the code of an error from a short
// body, which can be read again.
func OutcomeOf(response *http.Response) Outcome {
	if response == nil {
		return Outcome{}
	}
	return Outcome{Status: response.StatusCode, Header: response.Header, Code: errorCode(response)}
}

// Permit is the right to make one call. Settle it, or give it back; the first one counts. A permit
// that the program loses counts as used.
type Permit struct {
	account *account
	want    *ask
	granted step
	call    *callInFlight
}

func newPermit(account *account, want *ask, granted step) *Permit {
	p := &Permit{account: account, want: want, granted: granted}
	p.call = &callInFlight{id: granted.id, outbox: account.outbox, lease: granted.answer.Lease}
	p.call.asked, p.call.leaseEnds = &asked{p.Cost(), p.labels()}, granted.at+p.call.lease
	if p.HasPlace() {
		time.AfterFunc(duration(granted.at-now()+p.call.interval()), p.call.renew)
	}
	runtime.SetFinalizer(p, func(lost *Permit) { lost.Settle(Outcome{}) })
	return p
}

// ID returns the id, a secret until the permit is settled; it is empty if no scheduler answered and
// the call is made at a safe rate.
func (p *Permit) ID() string { return p.granted.id }

// LimitedBy returns the limit that set the delay, if one did.
func (p *Permit) LimitedBy() string { return p.granted.answer.LimitedBy }

// Account returns the account that makes the call; it is empty if the resource has no accounts.
func (p *Permit) Account() string { return p.granted.answer.Account }

// Way returns the way in which the call has to be made: 0 as the request describes it, otherwise the
// number of an Or.
func (p *Permit) Way() int { return p.granted.answer.Way }

// chosen returns how the way differs from the request.
func (p *Permit) chosen() way {
	if number := p.Way(); 0 < number && number <= len(p.want.AnyOf) {
		return p.want.AnyOf[number-1]
	}
	return way{}
}

// Cost returns what the call costs in its Way, as asked for or as the scheduler has computed it by Price.
func (p *Permit) Cost() Cost {
	for _, cost := range []Cost{p.chosen().Cost, p.granted.answer.Cost, p.want.Cost} {
		if len(cost) > 0 {
			return cost
		}
	}
	return Requests(1)
}

// labels returns those of the way, and the account. A repeat of the call may have others.
func (p *Permit) labels() map[string]string {
	labels := map[string]string{}
	for key, value := range p.want.Labels {
		labels[key] = value
	}
	for key, value := range p.chosen().Labels {
		if labels[key] = value; value == "" {
			delete(labels, key)
		}
	}
	if p.Account() != "" {
		labels["account"] = p.Account()
	}
	return labels
}

// HasPlace tells whether a limit counts calls in flight: this one holds a place there until it is
// settled.
func (p *Permit) HasPlace() bool { return p.granted.answer.Lease > 0 }

// Waited returns the time from the request to the start.
func (p *Permit) Waited() time.Duration { return duration(p.granted.at - p.want.since) }

// Delay returns how long until the call may start; more than 0 for a reservation only.
func (p *Permit) Delay() time.Duration { return duration(math.Max(0, p.granted.at-now())) }

// Ready waits for the start of a reservation. If the process slept past its end, it asks for another
// permit at the same age. After an error the permit is given back.
func (p *Permit) Ready(ctx context.Context) error {
	err := pause(ctx, p.granted.at)
	if err == nil && now() < p.granted.at+p.granted.answer.Valid {
		return nil
	}
	p.GiveBack()
	if err != nil {
		return err
	}
	p.want.Mode = "wait"
	renewed, err := p.account.obtain(ctx, p.want)
	if err == nil {
		runtime.SetFinalizer(renewed, nil)
		p.granted, p.call = renewed.granted, renewed.call
	}
	return err
}

// Settle reports the call: with OutcomeOf its answer, or with what is known of it.
func (p *Permit) Settle(outcome Outcome) {
	report := settle{Used: true, Elapsed: math.Max(0, now()-p.granted.at)}
	if outcome.Status != 0 {
		report.Response = &response{outcome.Status, limitHeaders(outcome.Header), outcome.QuotaSpent, outcome.Code}
	}
	var err error
	if report.Cost, err = exact(outcome.Cost); err != nil {
		p.account.outbox.log("a call is settled at its estimate: " + err.Error())
	}
	p.call.end(report)
}

// GiveBack gives the permit back: no call was made.
func (p *Permit) GiveBack() { p.call.end(settle{}) }

// callInFlight is the call of a permit until its end. It does not hold the permit, which a program
// may lose.
type callInFlight struct {
	id     string
	outbox *outbox
	lease  millis
	asked  *asked

	mutex     sync.Mutex // guards what follows
	leaseEnds millis
	isOver    bool
}

func (c *callInFlight) interval() millis { return math.Max(minRenewal, c.lease/renewals) }

// renew keeps the place among the calls in flight, until a scheduler does not know the call.
func (c *callInFlight) renew() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.isOver {
		return
	}
	c.mutex.Unlock()
	sent, next := now(), retryRenewal
	body, _ := json.Marshal(settle{ID: c.id, Used: true, Extend: true, Asked: c.asked})
	heard, err := c.outbox.send(body, sent+math.Max(maxRenewal, c.interval()))
	c.mutex.Lock()
	if err == nil && len(heard.answers) > 0 {
		switch heard.answers[0].Code {
		case "":
			c.leaseEnds, next = sent+c.lease, c.interval()
		case "unknown_permit", "invalid_request":
			return
		}
	}
	time.AfterFunc(duration(next), c.renew)
}

func (c *callInFlight) end(how settle) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.isOver || c.id == "" {
		return
	}
	c.isOver, how.ID = true, c.id
	if now() < c.leaseEnds {
		how.Asked = c.asked
	}
	c.outbox.push(how)
}
