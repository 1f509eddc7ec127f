package rampmeter

import (
	"fmt"
	"math"
)

const (
	// probeInterval is how often a resource without a scheduler is tried, whatever the policy.
	probeInterval millis = 250
	// pace is the common distance of attempts after failures: 2 000 a second cost a tenth of a core.
	pace millis = 0.5
	// People are told of a silence after toldAfter, and then every toldEvery.
	toldAfter millis = 2_000
	toldEvery millis = 60_000
	// maxLateness is how much later than promised a call may start: the margin of the scheduler
	// covers as much.
	maxLateness millis = 50
	// A base delay is forgotten after one to two of memory, because clocks drift apart.
	memory millis = 30_000
)

// schedulers are those of one resource, as this process knows them. No method asks a clock.
type schedulers struct {
	// patience is the silence after which callers are told, and interval the distance of calls at
	// the safe rate. Either may be infinite.
	patience, interval millis
	log                func(string)
	base               baseDelay
	epoch              int64  // the highest one of an answer; 0 before the first
	failures           int    // since a scheduler has decided on a request; pauses grow with them
	why                string // no scheduler answers
	// When an answer came, people were told, the schedulers stop to count as lost, and the next probe,
	// call at the safe rate and attempt may be.
	heardAt, toldAt, lostUntil, probeAt, opens, attemptAt millis
}

func newSchedulers(patience, interval millis, log func(string)) *schedulers {
	s := &schedulers{patience: patience, interval: interval, log: log}
	s.base = baseDelay{epoch: -1, least: forever, before: forever}
	s.heardAt, s.toldAt, s.lostUntil = -forever, -forever, -forever
	return s
}

// heard notes an answer of this epoch (0: of none), and returns false if its writer no longer leads.
func (s *schedulers) heard(now millis, epoch int64) bool {
	if epoch > 0 && epoch < s.epoch {
		return false
	}
	if s.toldAt > -forever {
		s.log("a scheduler answers again")
	}
	if epoch > 0 {
		s.epoch = epoch
	}
	s.heardAt, s.lostUntil, s.toldAt = now, -forever, -forever
	return true
}

// failed notes an attempt without an answer, which was owed since then.
func (s *schedulers) failed(now, owed millis, why string) {
	silence := now - math.Max(owed, s.heardAt)
	s.why = fmt.Sprintf("no scheduler has answered for %.0f ms: %s", silence, why)
	if silence >= toldAfter && now-s.toldAt >= toldEvery {
		s.toldAt = now
		s.log(s.why)
	}
	if silence < s.patience {
		return
	}
	if now > s.lostUntil {
		// A whole fleet loses its scheduler at once, and its calls must not all come at once.
		s.opens = math.Max(s.opens, now+s.interval*(1-chance()))
	}
	s.lostUntil, s.probeAt = now+math.Max(s.patience, 2*probeInterval), now+probeInterval
}

// mayTry tells whether it is of use to ask now.
func (s *schedulers) mayTry(now millis) bool {
	if now <= s.lostUntil && now < s.probeAt {
		return false
	}
	s.probeAt = now + probeInterval
	return true
}

// isLocal tells whether a call may start now without a scheduler. The error says that it never may,
// or not in time.
func (s *schedulers) isLocal(now millis, mayWait bool) (bool, error) {
	if now > s.lostUntil {
		return false, nil
	}
	isOpen := now >= s.opens
	if isOpen {
		s.opens = now + s.interval
	}
	if isOpen || mayWait && s.opens < forever {
		return isOpen, nil
	}
	after := s.opens - now
	if after == forever {
		after = s.patience * (1 + chance()/4)
	}
	return false, &Unreachable{Message: s.why, RetryAfter: duration(after)}
}

// nextAttempt returns when to go on after a failure: after 5 to 250 ms, exponential with full jitter.
func (s *schedulers) nextAttempt(now millis) millis {
	if now <= s.lostUntil {
		return math.Min(s.opens, now+probeInterval)
	}
	s.attemptAt = math.Max(s.attemptAt+pace, now+backOff(s.failures))
	s.failures++
	return s.attemptAt
}

func backOff(failures int) millis {
	return 5 + chance()*(math.Min(250, 10*math.Pow(2, math.Min(float64(failures), 8)))-5)
}

// baseDelay is the least time that answers of one leader took lately, from their stamp to their
// receipt. It tells how late an answer is by the clock of the scheduler that wrote it.
type baseDelay struct {
	epoch                int64
	since, least, before millis
}

// start returns how long from now the call of an answer starts, and false if it would or might start
// too late. late is the time from the previous answer's stamp to its receipt if that was late, or else
// infinite; two equal times show that the way is that long.
func (b *baseDelay) start(granted answer, asked, now, late millis) (millis, bool) {
	if granted.Stamp == absent {
		return granted.Delay, true
	}
	if age := now - b.since; granted.Epoch != b.epoch || age > 2*memory {
		*b = baseDelay{granted.Epoch, now, forever, forever}
	} else if age > memory {
		*b = baseDelay{b.epoch, now, forever, b.least}
	}
	way, trip := now-granted.Stamp, now-asked
	base, lateness := math.Min(b.least, b.before), forever
	if trip <= maxLateness {
		base = math.Min(base, way)
	}
	if base < forever {
		lateness = math.Min(math.Max(0, way-base), trip)
	}
	if lateness <= maxLateness {
		b.least = math.Min(b.least, way)
	}
	if lateness-granted.Delay <= maxLateness {
		// A stamp is whole milliseconds, so that the lateness may be one too high.
		return math.Max(0, granted.Delay-math.Max(0, lateness-1)), true
	}
	if math.Abs(way-late) > maxLateness {
		return 0, false
	}
	b.least, b.before = way, forever
	return granted.Delay, true
}
