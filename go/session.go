package rampmeter

import (
	"errors"
	"math"
	"regexp"
)

const (
	// frontPatience is how long a front looks for a scheduler before it says that it has found none.
	// It owes no answer before.
	frontPatience millis = 1_000
	// maxUsedUp is the most ids of one request that may be used up. Beyond it, another id does not help.
	maxUsedUp = 100
	// minValid is the shortest life of a permit that is of use: no timer is faster.
	minValid millis = 1
)

// usedUpCode has the codes of an id whose start was missed, or that was settled, given back or taken.
var usedUpCode = regexp.MustCompile(`^(lapsed|already_settled|unknown_permit|id_in_use)$`)

// step is a permit, whose call starts at a time, or else the time to ask again. A permit without an id
// is one of which no scheduler knows. After an error there is no permit.
type step struct {
	isPermit bool
	id       string
	at       millis
	answer   answer
	err      error
}

// session is one request for a permit, from its first message to the start of its call.
type session struct {
	*ask
	schedulers *schedulers
	isOpen     bool // whether a scheduler may have charged the id
	usedUp     int
	owed       millis // since when a scheduler owes an answer; infinite if it owes none
	late       millis // the one-way delay of the last answer if that was late, or else infinite

	// The world around it. The errors of send and pause end the request.
	now      func() millis
	send     func(request) (reply, error)
	pause    func(until millis) error
	giveBack func(id string)
}

func newSession(want *ask, schedulers *schedulers) *session {
	want.ID = newID()
	return &session{ask: want, schedulers: schedulers, owed: forever, late: forever, now: now}
}

// permit asks until the call may start; of a reservation, until that is known. After an error nothing
// is charged any more.
func (s *session) permit() step {
	for {
		next := s.attempt()
		if !next.isPermit {
			next.at = math.Min(next.at, s.deadline)
		}
		isReserved := next.isPermit && s.Mode == "reserve"
		if next.err == nil && !isReserved && next.at > s.now() {
			next.err = s.pause(next.at)
		}
		switch {
		case next.err != nil:
			s.leave()
			return next
		case isReserved || next.isPermit && s.now() < next.at+next.answer.Valid:
			return next
		case next.isPermit:
			s.leave()
		}
	}
}

func (s *session) attempt() step {
	asked := s.now()
	if asked >= s.deadline {
		advice := map[bool]string{true: "no scheduler answers", false: "wait longer, or ask for less"}
		return step{err: refusal("not_in_time", advice[s.owed < forever], forever, "")}
	}
	if s.schedulers.mayTry(asked) {
		heard, err := s.send(s.message(asked))
		switch {
		case err != nil: // What a front turns away is charged nothing.
			s.isOpen = s.isOpen && !errors.As(err, new(*Refused))
			return step{err: err}
		case len(heard.answers) > 0:
			return s.answered(heard.answers[0], asked, s.now())
		case heard.wasSent: // The front gives back what a client that hangs up has asked for.
			s.leave()
		}
		s.owed = math.Min(s.owed, math.Max(asked, s.now()-frontPatience))
		s.schedulers.failed(s.now(), s.owed, heard.unheard)
	}
	isLocal, err := s.schedulers.isLocal(s.now(), s.Mode != "allow")
	if err != nil || !isLocal {
		return step{at: s.schedulers.nextAttempt(s.now()), err: err}
	}
	s.leave()
	return step{isPermit: true, at: s.now(), answer: answer{Valid: forever}}
}

func (s *session) message(now millis) request {
	s.isOpen = true
	message := s.request
	message.Epoch = s.schedulers.epoch
	message.Age = int64(now - s.since) // Rounded down: it is a claim to a place in the queue.
	if left := s.deadline - now; s.Mode != "allow" && left < forever {
		message.MaxWait = &left
	}
	return message
}

func (s *session) answered(heard answer, asked, now millis) step {
	s.owed = forever
	// A grant that does not say when the call starts is no permit.
	isUseless := heard.Code == "unavailable" || heard.Status == "granted" && heard.Delay == absent
	switch {
	case !s.schedulers.heard(now, heard.Epoch) || isUseless:
		return step{at: s.schedulers.nextAttempt(now)}
	case usedUpCode.MatchString(heard.Code) && s.usedUp < maxUsedUp:
		s.usedUp++
		s.isOpen = heard.Code == "lapsed"
		return s.askAnew(now)
	}
	s.schedulers.failures = 0
	if heard.Status == "granted" {
		return s.inTime(heard, asked, now)
	}
	s.isOpen = false // A refusal leaves no charge.
	// Spread the retries of requests that a full queue refused together.
	again := now + heard.After*(1+chance()/4)
	if heard.Code == "queue_full" && s.Mode == "wait" && again < s.deadline {
		return step{at: again}
	}
	return step{err: refusal(heard.Code, heard.Message, heard.After, heard.LimitedBy)}
}

// inTime returns the permit, unless its call would start too late.
func (s *session) inTime(granted answer, asked, now millis) step {
	delay, isInTime := s.schedulers.base.start(granted, asked, now, s.late)
	s.late = forever
	if !isInTime {
		s.late = now - granted.Stamp
	}
	if !isInTime || granted.Valid < minValid {
		return s.askAnew(now)
	}
	return step{isPermit: true, id: s.ID, at: now + delay, answer: granted}
}

// askAnew pauses as after a failure: many requests may have the same reason to be sent again.
func (s *session) askAnew(now millis) step {
	s.leave()
	return step{at: s.schedulers.nextAttempt(now)}
}

// leave gives the id back and goes on under another one: a scheduler refuses this one from now on.
func (s *session) leave() {
	if s.isOpen {
		s.giveBack(s.ID)
	}
	s.isOpen, s.ID = false, newID()
}
