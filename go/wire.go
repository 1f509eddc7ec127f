package rampmeter

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// millis is a time on the clock of this process, or a length of time. Either may be infinite.
type millis = float64

var (
	forever millis = math.Inf(1)
	origin         = time.Now()
)

const (
	maxAmount      = 1e9
	maxHeaders     = 64
	maxHeaderName  = 64
	maxHeaderValue = 1024
	// maxErrorBody is the most bytes of a body that is looked at for the code of an error.
	maxErrorBody = 16 * 1024
	// absent is a time that an answer does not have.
	absent millis = -1
)

// request is the message that asks for a permit.
type request struct {
	way
	AnyOf   []way          `json:"any_of,omitempty"`
	ID      string         `json:"id"`
	Price   map[string]any `json:"price,omitempty"`
	Class   string         `json:"class,omitempty"`
	Not     []string       `json:"not,omitempty"`
	Mode    string         `json:"mode"`
	Age     int64          `json:"age_ms"`
	MaxWait *millis        `json:"max_wait_ms,omitempty"`
	Epoch   int64          `json:"epoch,omitempty"`
}

// way is a way to make a call, and how long its start is worth waiting for if there are others.
type way struct {
	Cost      Cost              `json:"cost,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	ElseAfter millis            `json:"else_after_ms,omitempty"`
}

// answer is a permit, a refusal or the receipt of a settle; each has some of the fields.
type answer struct {
	Status, Code, Message string
	Epoch                 int64
	Cost                  Cost
	Account               string
	Way                   int
	LimitedBy             string `json:"limited_by"`
	Delay                 millis `json:"delay_ms"`
	Valid                 millis `json:"valid_ms"`
	Lease                 millis `json:"lease_ms"`
	Stamp                 millis `json:"at_ms"`
	After                 millis `json:"retry_after_ms"`
}

// UnmarshalJSON reads an answer whose missing times have a meaning.
func (a *answer) UnmarshalJSON(text []byte) error {
	type fields answer
	*a = answer{Delay: absent, Valid: forever, Stamp: absent, After: forever}
	return json.Unmarshal(text, (*fields)(a))
}

// settle reports a call, gives a permit back, or renews a lease.
type settle struct {
	ID       string    `json:"id"`
	Used     bool      `json:"used"`
	Extend   bool      `json:"extend,omitempty"`
	Cost     Cost      `json:"cost,omitempty"`
	Elapsed  millis    `json:"elapsed_ms,omitempty"`
	Response *response `json:"response,omitempty"`
	Asked    *asked    `json:"asked,omitempty"`
}

// asked tells a successor of the scheduler what a call in flight takes.
type asked struct {
	Cost   Cost              `json:"cost,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

type response struct {
	Status     int               `json:"status"`
	Headers    map[string]string `json:"headers"`
	QuotaSpent bool              `json:"quota_spent,omitempty"`
	Code       string            `json:"code,omitempty"`
}

var (
	// ofLimits has headers that schedulers read although their names do not say so.
	ofLimits   = regexp.MustCompile(`^(date|sforce-limit-info|x-amzn-errortype|x-processingunits-spent|x-shopify-shop-api-call-limit)$`)
	limitMark  = regexp.MustCompile(`quota|rate-?limit|retry-after|throttl`)
	secretWord = regexp.MustCompile(`(^|[-_])(auth|authorization|cookie|key|password|secret|session|signature|token)([-_]|$)`)
	codeWord   = regexp.MustCompile(`^\w+$`)
	// finalCode has the codes of a 429 that no wait mends.
	finalCode = regexp.MustCompile(`^(insufficient_quota|billing_hard_limit_reached|billing_not_active|access_terminated)$`)
)

// speaksOfLimits tells whether a header is passed on, by its name in lower case. No other header
// leaves this process, because it may hold a secret.
func speaksOfLimits(name string) bool {
	isMarked := len(name) <= maxHeaderName && limitMark.MatchString(name) && !secretWord.MatchString(name)
	return isMarked || ofLimits.MatchString(name)
}

// limitHeaders returns the headers that speak of limits, their names in lower case.
func limitHeaders(header http.Header) map[string]string {
	found := map[string]string{}
	for name, values := range header {
		lower, value := strings.ToLower(name), strings.Join(values, ", ")
		if speaksOfLimits(lower) && value != "" && len([]rune(value)) <= maxHeaderValue && len(found) < maxHeaders {
			found[lower] = value
		}
	}
	return found
}

// errorCode returns the code of the error in an answer whose body is JSON, and short as far as it
// tells. The body can be read again.
func errorCode(of *http.Response) string {
	isJSON := strings.Contains(of.Header.Get("Content-Type"), "json")
	if of.StatusCode < 400 || !isJSON || of.ContentLength > maxErrorBody || of.Body == nil {
		return ""
	}
	begun, _ := io.ReadAll(io.LimitReader(of.Body, maxErrorBody)) // An error of the body comes again.
	of.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begun), of.Body), of.Body}
	return codeIn(begun)
}

// codeIn returns the most specific code in the shapes that APIs have for errors.
func codeIn(body []byte) string {
	var told any
	_ = json.Unmarshal(body, &told) // What is no JSON has no code.
	failure := field(told, "error")
	for _, place := range []any{field(failure, "errors"), field(told, "errors"), failure, told} {
		if list, _ := place.([]any); len(list) > 0 {
			place = list[0]
		}
		if text, _ := place.(string); codeWord.MatchString(text) {
			return text
		}
		codes := []any{field(field(place, "extensions"), "code")}
		for _, name := range []string{"code", "reason", "type", "status", "__type"} {
			codes = append(codes, field(place, name))
		}
		for _, code := range codes {
			if text, _ := code.(string); text != "" && text != "error" {
				return text
			}
		}
	}
	return ""
}

func field(of any, name string) any {
	object, _ := of.(map[string]any)
	return object[name]
}

// exact returns a cost in millionths of its units, rounded up: a caller never pays too little.
func exact(cost Cost) (Cost, error) {
	amounts := make(Cost, len(cost))
	for unit, amount := range cost {
		if !(amount >= 0 && amount <= maxAmount) {
			return nil, invalid(fmt.Sprintf("a cost is 0 to 1e9, not %v %s", amount, unit))
		}
		amounts[unit] = math.Ceil(amount*1e6-1e-3) / 1e6 // A thousandth of a millionth is noise.
	}
	return amounts, nil
}

// newID returns a random UUID: who knows the id of a permit can settle and cancel it.
func newID() string {
	bits := random(16)
	bits[6], bits[8] = bits[6]&0x0f|0x40, bits[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", bits[:4], bits[4:6], bits[6:8], bits[8:10], bits[10:])
}

// chance returns a number from 0 to below 1. Processes of a fleet do not draw the same ones.
func chance() float64 { return float64(binary.BigEndian.Uint32(random(4))) / (1 << 32) }

func random(length int) []byte {
	bits := make([]byte, length)
	if _, err := rand.Read(bits); err != nil {
		panic("rampmeter: there are no random numbers: " + err.Error())
	}
	return bits
}

func now() millis { return millisOf(time.Since(origin)) }

func millisOf(length time.Duration) millis { return millis(length) / millis(time.Millisecond) }

// duration returns a length of time, rounded up and at most the longest one.
func duration(length millis) time.Duration {
	return time.Duration(math.Min(math.Ceil(length*float64(time.Millisecond)), math.MaxInt64-1024))
}

// pause waits until end, or returns the error of the context.
func pause(ctx context.Context, end millis) error {
	timer := time.NewTimer(duration(end - now()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
