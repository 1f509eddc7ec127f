package rampmeter

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Refused is the error of a request for which there is no permit. Nothing is charged.
type Refused struct {
	// Code is one of docs/protocol.md, such as never_fits or quota_spent, or one of two more:
	// wrong_token and not_rampmeter. A mistake that this package sees by itself is invalid_request.
	Code string
	// Message says what was wrong and what to do.
	Message string
	// RetryAfter is when to ask again; 0 if that is of no use.
	RetryAfter time.Duration
	// LimitedBy names the limit in the way, if there is one.
	LimitedBy string
	// Response is the upstream's last one if a call was answered 429 and is not repeated for this
	// refusal. The beginning of its body can be read.
	Response *http.Response
	// Cause is the error of that call, if it had one.
	Cause error
}

func (e *Refused) Error() string {
	if e.RetryAfter > 0 {
		return fmt.Sprintf("rampmeter: %s: %s; ask again in %v", e.Code, e.Message, e.RetryAfter.Round(time.Millisecond))
	}
	return fmt.Sprintf("rampmeter: %s: %s", e.Code, e.Message)
}

// Unwrap returns the cause.
func (e *Refused) Unwrap() error { return e.Cause }

// NotInTime is the Refused of a call that cannot start in time. It counts as a time-out:
// errors.Is(err, context.DeadlineExceeded) is true.
type NotInTime struct{ Refused }

// Unwrap returns the Refused, so that errors.As finds that, too.
func (e *NotInTime) Unwrap() error { return &e.Refused }

// Is tells whether the target is context.DeadlineExceeded.
func (e *NotInTime) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout returns true, as net.Error has it.
func (e *NotInTime) Timeout() bool { return true }

// Unreachable is the error while no scheduler answers, if the client does not wait.
type Unreachable struct {
	// Message says for how long, where, and why.
	Message string
	// RetryAfter is when to ask again.
	RetryAfter time.Duration
}

func (e *Unreachable) Error() string {
	return "rampmeter: unreachable: " + e.Message + "; start `rampmeter serve` there, or check the address"
}

func refusal(code, message string, after millis, limitedBy string) error {
	refused := Refused{Code: code, Message: message, LimitedBy: limitedBy}
	if after < forever {
		refused.RetryAfter = duration(after)
	}
	if code == "not_in_time" {
		return &NotInTime{refused}
	}
	return &refused
}

func invalid(message string) error { return refusal("invalid_request", message, forever, "") }
